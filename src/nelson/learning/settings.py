"""Every knob of `nelson.learn`, and the presets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from nelson.errors import FormulaError

OPTIMIZERS = ("newton", "adam", "sgd")


@dataclass(frozen=True)
class Settings:
    """See `nelson.learn` for what each means."""

    optimizer: str = "newton"
    m: int | None = None  # model samples an iteration; None: grows, up to 4 N
    eta: float = 0.1  # step of sgd and adam; of newton: at most this (1 is a full step)
    decay: float = 0.0  # eta_t = eta / (1 + decay t)
    iterations: int = 200
    batch: int | None = None  # examples an iteration; None: all
    prior: float = 1.0  # pseudo-examples from the uniform valid law
    bound: float = 16.0  # |theta_i| at most
    average: bool = False  # sgd, adam: the mean of the second half of the iterates
    level: float = 0.01  # false-alarm rate of the stopping test
    stop: bool = True  # stop when the moment gap is noise
    sampler: str = "auto"
    sweeps: int | None = None

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
            need(optional or (whole and value >= least), name, "a count")
        need(self.eta > 0, "eta", "a positive step")
        need(self.decay >= 0, "decay", "0 or more")
        need(self.prior >= 0, "prior", "0 or more pseudo-examples")
        need(0 < self.bound <= 100, "bound", "a number in 0..100")
        need(0 < self.level < 1, "level", "a probability")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


PRESETS = {
    # Natural gradient (full Fisher matrix for n <= 1024, its diagonal beyond).
    "default": Settings(eta=1.0),
    # Algorithm 2 with the hyper-parameters of Appendix D, and the sign that climbs: plain SGD on
    # the plain likelihood, Algorithm 1's own samples.
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


def settings_for(preset: str, **changes: Any) -> Settings:
    """A preset with those of its settings changed that are not None."""
    if preset not in PRESETS:
        raise FormulaError(f"no preset {preset!r}", expected=f"one of {', '.join(PRESETS)}")
    known = {field.name for field in fields(Settings)}
    if unknown := sorted(set(changes) - known):
        raise FormulaError(f"no setting {unknown[0]!r}", expected=f"one of {sorted(known)}")
    return replace(PRESETS[preset], **{k: v for k, v in changes.items() if v is not None})
