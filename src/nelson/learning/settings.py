"""The settings of `nelson.learn` that change what is learned, and the presets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from nelson.errors import FormulaError

OPTIMIZERS = ("newton", "adam", "sgd", "proximal")


@dataclass(frozen=True)
class Settings:
    optimizer: str = "newton"
    m: int | None = None  # samples of the model in an iteration; None: grows, up to 4 N
    eta: float = 0.1  # step of sgd and adam; for newton the largest step (1 is a full step)
    decay: float = 0.0  # eta_t = eta / (1 + decay t)
    iterations: int = 200
    batch: int | None = None  # examples in an iteration; None: all
    prior: float = 1.0  # pseudo-examples from the uniform law over the valid structures
    bound: float = 16.0  # |theta_i| <= bound
    average: bool = False  # sgd, adam: return the mean of the latest iterates
    level: float = 0.01  # false-alarm rate of the stopping test
    stop: bool = True  # stop when the moment gap is noise
    sampler: str = "auto"
    sweeps: int | None = None
    l1: float | None = None  # proximal: penalty on |c| of each product; None: validation chooses
    l2: float = 0.0  # proximal: penalty on c^2 / 2 of each product

    def __post_init__(self) -> None:
        def need(good: bool, name: str, expected: str) -> None:
            if not good:
                raise FormulaError(f"{name} = {getattr(self, name)!r}", expected=expected)

        need(self.optimizer in OPTIMIZERS, "optimizer", f"one of {', '.join(OPTIMIZERS)}")
        for name in ("m", "iterations", "batch", "sweeps"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            least = 0 if name in ("sweeps", "iterations") else 1
            optional = value is None and name != "iterations"
            need(optional or (whole and value >= least), name, f"a whole number, {least} or more")
        need(self.eta > 0, "eta", "a positive step")
        need(self.decay >= 0, "decay", "0 or more")
        need(self.prior >= 0, "prior", "0 or more pseudo-examples")
        need(0 < self.bound <= 100, "bound", "above 0, at most 100")
        need(self.l1 is None or 0 <= self.l1 < 1e6, "l1", "0 or more nats for each example")
        need(0 <= self.l2 < 1e6, "l2", "0 or more nats for each example")
        need(0 < self.level < 1, "level", "a probability between 0 and 1")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


PRESETS = {
    # Natural gradient (full Fisher matrix for n <= 1024, its diagonal beyond).
    "default": Settings(eta=1.0),
    # Algorithm 2 with the hyper-parameters of Appendix D, and the sign that climbs: plain SGD on
    # the plain likelihood, with the samples of Algorithm 1.
    "paper": Settings(
        optimizer="sgd",
        m=200,
        eta=0.1,
        iterations=1000,
        batch=200,
        prior=0.0,
        bound=100.0,
        stop=False,
        sampler="lovasz",
        sweeps=0,
    ),
    # For very large n or costly samplers: first order, averaged.
    "adam": Settings(
        optimizer="adam", m=1024, eta=0.05, decay=0.01, iterations=1000, average=True, stop=True
    ),
}
# For many products of variables: see `penalised.py`.
_PROXIMAL = Settings(optimizer="proximal", eta=0.05, iterations=3000)
_NETWORK = Settings(optimizer="adam", m=64, eta=0.01, batch=64, iterations=1000)
_NETWORK_PAPER = replace(_NETWORK, m=200, eta=0.1, batch=200, sampler="lovasz", sweeps=0)


def settings_for(preset: str, *, network: bool = False, **changes: Any) -> Settings:
    """A preset with changes; None changes nothing.

    A first-order optimizer turns the preset "default" into "adam". A network and "proximal" have
    their own defaults.
    """
    if preset not in PRESETS:
        raise FormulaError(f"no preset {preset!r}", expected=f"one of {', '.join(PRESETS)}")
    known = {field.name for field in fields(Settings)}
    if unknown := sorted(set(changes) - known):
        raise FormulaError(f"no setting {unknown[0]!r}", expected=f"one of {sorted(known)}")
    given = {name: value for name, value in changes.items() if value is not None}
    if network:
        base = _NETWORK_PAPER if preset == "paper" else _NETWORK
        return replace(replace(base, **given), optimizer="adam")  # torch has its own optimizers
    if given.get("optimizer") == "proximal":
        return replace(_PROXIMAL, **given)
    first_order = given.get("optimizer") in ("adam", "sgd")
    return replace(PRESETS["adam" if first_order and preset == "default" else preset], **given)
