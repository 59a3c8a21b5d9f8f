"""How `nelson.learn` climbs the likelihood: one small object for each optimizer.

An optimizer holds every number that changes what is learned. A checkpoint keeps them, and a run
that differs in one of them is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from nelson.errors import FormulaError
from nelson.policy import DEFAULT, Policy


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What all optimizers share.

    rate        the step size; Newton's is at most 1, a full step
    m           samples of the model in an iteration; None: the optimizer chooses
    iterations  at most
    prior       number of pseudo-examples from the uniform law over valid structures that are mixed
                into the data. They keep theta finite if the data's marginals are 0 or 1. 0: plain
                likelihood
    bound       |theta_i| <= bound. If the data ask for more, `why` names the variables that the
                bound holds back, and the fit has not converged
    level       false-alarm rate of the test that ends the run
    stop        False: go on to the last iteration, also if the moment gap is noise
    sweeps      heat-bath sweeps for each sample; None: a pilot run measures how many are needed,
                and again as theta moves
    policy      how the samples are drawn, and when their method is chosen again (`nelson.Policy`)
    """

    NAME: ClassVar[str]

    rate: float = 0.1
    m: int | None = None
    iterations: int = 200
    prior: float = 1.0
    bound: float = 16.0
    level: float = 0.01
    stop: bool = True
    sweeps: int | None = None
    policy: Policy = DEFAULT

    def __post_init__(self) -> None:
        counts = ("m", "iterations", "batch", "sweeps", "averaged", "check_every", "check_factor")
        for name in (*counts, "stage", "patience"):
            value: Any = getattr(self, name, None)
            whole = isinstance(value, int) and not isinstance(value, bool)
            least = 0 if name in ("sweeps", "iterations") else 1
            optional = value is None and name != "iterations"
            self._need(
                optional or (whole and value >= least), name, f"a whole number, {least} or more"
            )
        self._need(self.rate > 0, "rate", "a positive step")
        self._need(self.prior >= 0, "prior", "0 or more pseudo-examples")
        self._need(0 < self.bound <= 100, "bound", "above 0, at most 100")
        self._need(0 < self.level < 1, "level", "a probability between 0 and 1")

    def _need(self, good: bool, name: str, expected: str) -> None:
        if not good:
            raise FormulaError(f"{name} = {getattr(self, name)!r}", expected=expected)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for model.json and checkpoints; functions are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: value for name, value in values.items() if not callable(value)}
        return {"optimizer": self.NAME, **plain, "policy": repr(self.policy)}


@dataclass(frozen=True, kw_only=True)
class Newton(Optimizer):
    """Natural gradient (full Fisher matrix for n <= 1024, its diagonal beyond), with a number of
    samples that grows to 4 for each example. It stops when the moment gap is noise.

    averaged  results of steps whose mean is the answer
    """

    NAME: ClassVar[str] = "newton"

    rate: float = 1.0
    averaged: int = 8


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """theta <- theta + rate_t (E_data[x] - E_model[x]), rate_t = rate / (1 + decay t).

    batch    examples in an iteration; None: all
    average  return the mean of the latest iterates
    check_every, check_factor  steps from one test of the moments to the next; it draws this many
             times m samples, so that its own noise is small
    """

    NAME: ClassVar[str] = "sgd"

    rate: float = 0.05
    decay: float = 0.01
    m: int | None = 1024
    batch: int | None = None
    iterations: int = 1000
    average: bool = True
    check_every: int = 100
    check_factor: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.decay >= 0, "decay", "0 or more")


@dataclass(frozen=True, kw_only=True)
class Adam(SGD):
    """First order with a step for each variable (Kingma and Ba, 2015): for very large n or costly
    samplers. Fields as in `SGD`, and those of Adam itself."""

    NAME: ClassVar[str] = "adam"

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class Proximal(Optimizer):
    """For many products of variables (`terms`): proximal steps in stages, see `penalised.py`.

    l1, l2   penalties on the coefficients c of products, in nats for each example: l1 |c| and
             l2 c^2 / 2. l1=None with validation examples: l1 falls until they do not gain
    stage, fall  steps of a stage, at first; the step size falls to 1 / (1 + fall) within it
    factor   of the penalty from one stage to the next
    patience, far  stages without a new best that end the run; a stage that ends this many nats
             below the best is discarded
    """

    NAME: ClassVar[str] = "proximal"

    rate: float = 0.03
    iterations: int = 6000
    l1: float | None = None
    l2: float = 0.0
    stage: int = 300
    fall: float = 3.0
    factor: float = 0.7
    patience: int = 3
    far: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.l1 is None or 0 <= self.l1 < 1e6, "l1", "0 or more nats for each example")
        self._need(0 <= self.l2 < 1e6, "l2", "0 or more nats for each example")


@dataclass(frozen=True, kw_only=True)
class Network(Optimizer):
    """For theta = net(context).

    batch   examples, each with its own theta, in an iteration; m: samples for each of them
    torch   parameters -> torch optimizer; None: torch's Adam with step `rate`
    """

    NAME: ClassVar[str] = "network"

    rate: float = 0.01
    m: int | None = 64
    batch: int | None = 64
    iterations: int = 1000
    torch: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.m is not None, "m", "a number of samples")
        self._need(self.batch is not None, "batch", "a number of examples")


#: Algorithm 2 with the hyper-parameters of Appendix D, and the sign that climbs: plain SGD on the
#: plain likelihood, with the samples of Algorithm 1 (no sweeps).
PAPER = SGD(
    rate=0.1,
    decay=0.0,
    m=200,
    batch=200,
    iterations=1000,
    average=False,
    prior=0.0,
    bound=100.0,
    stop=False,
    sweeps=0,
)
#: The same for a network, whose theta needs no wider bound.
PAPER_NETWORK = Network(rate=0.1, m=200, batch=200, sweeps=0)
#: Optimizers that have a name.
NAMED: dict[str, Optimizer] = {"newton": Newton(), "adam": Adam(), "sgd": SGD(), "paper": PAPER}


def optimizer_of(
    given: Any, *, network: bool = False, penalised: bool = False, **changes: Any
) -> Optimizer:
    """The optimizer that the caller named or made, with changes (None changes nothing).

    given      an `Optimizer`, a name of `NAMED`, None, or, for a network, a function that makes a
               torch optimizer
    network    is theta = net(context)?
    penalised  are there more products than other optimizers than `Proximal` can learn?
    """
    if isinstance(given, str) and given not in NAMED:
        raise FormulaError(f"no optimizer {given!r}", expected=f"one of {', '.join(NAMED)}")
    chosen: Any = given
    if network:
        if given is None or isinstance(given, str):
            chosen = PAPER_NETWORK if given == "paper" else Network()
        elif callable(given):
            chosen = Network(torch=given)
    elif penalised and (given is None or isinstance(given, str)):
        chosen = Proximal()
    elif given is None:
        chosen = Newton()
    elif isinstance(given, str):
        chosen = NAMED[given]
    expected = Network if network else Proximal if penalised else Optimizer
    fits = isinstance(chosen, expected) and (network or not isinstance(chosen, Network))
    if not fits:
        raise FormulaError(
            f"optimizer = {given!r}",
            expected={
                Network: "nelson.learning.Network(...), or a function that makes a torch optimizer",
                Proximal: 'nelson.learning.Proximal(...) for "pairs" and validation examples',
            }.get(expected, "nelson.learning.Newton(...), Adam(...) or SGD(...), or a name"),
        )
    known = {field.name for field in fields(chosen)}
    changed = {name: value for name, value in changes.items() if value is not None}
    if unknown := sorted(set(changed) - known):
        raise FormulaError(f"{unknown[0]} of optimizer {chosen.NAME}", expected=", ".join(known))
    optimizer: Optimizer = replace(chosen, **changed)
    return optimizer
