"""`nelson.sample`, `nelson.stream`, `nelson.plan`: a formula and theta in, verified samples out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nelson.formula import Formula
from nelson.policy import DEFAULT, Policy
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples
from nelson.sampling.terms_plan import plan_of


def sample(
    formula: Formula,
    theta: Any = None,
    n: int = 1,
    *,
    method: str = "auto",
    sweeps: int | None = None,
    moves: str = "single",
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | str | None = None,
    project_law: str = "marginal",
    unique: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    max_rounds: int = 1000,
    seconds: float | None = None,
    strict: bool = False,
    width: int | None = None,
    device: Any = None,
    check: bool = True,
    policy: Policy = DEFAULT,
    terms: Any = None,
) -> Samples:
    """Draw n samples from P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z.

    theta       None (uniform), a vector of n_vars log-odds, or (contexts, n_vars): n samples each.
                +-inf is hard evidence.
    method      "auto", or a name of `nelson.samplers()`. `nelson.sampling.registry.describe()` says
                what each method promises and needs.
    sweeps      heat-bath sweeps of the valid space after resampling (for "gibbs": sweeps of all
                assignments); None: the number that the method needs.
    moves       what a sweep is: "single", every variable once, given all others; "fields", every
                group of which at most one is true, and every other variable, once, given all
                others; or "joint", all variables but a few held ones at once. The last two are for
                `lovasz`, with `sweeps`. A joint move costs more, and moves variables that the
                others cannot, such as gates.
    given       partial assignment, {3: True, 5: False} or [3, -5].
    project     variables to return, in this order. None: the projection that the formula carries
                (`c ind` and `c p show` lines of its file), else all variables. "all": all variables
                in any case.
    project_law "marginal": the marginal of P_theta on the projected variables: an assignment y
                counts once for each solution that extends it. "solutions": P(y) ~ exp(theta . y)
                over the assignments y that some solution extends, each counted once; theta is 0
                outside of the projection. info["projection"] says how that was reached.
    unique      distinct samples only: drawn one after the other, repeats skipped. So each sample
                follows P_theta given that it differs from those before it (info["law"] says this).
                With theta = 0 and all variables, the samples are a uniformly random set of
                solutions, and the guarantee stays. If nearly all solutions are asked for, the last
                ones are enumerated and put into a random order, which has the same law
                (info["enumerated"] is their number). Otherwise rare solutions are drawn too often
                and frequent ones too seldom, so that shares and means of the samples are not those
                of P_theta, and the guarantee of two or more samples is "heuristic".
    seed        same seed, same samples: on any number of threads, in any batch.
    threads     default: all cores.
    max_rounds, seconds: the budget. Compilation in a first call does not count. A sampler without
                rounds has a default number of seconds.
    strict      raise BudgetExceeded if the budget ends with fewer than n samples.
    width       64-bit words per row of the kernel; never changes a sample.
    device      "cuda", "cuda:1" or a torch.device: draw on that GPU and leave the samples there
                (`DeviceSamples`). The same seed gives the same samples on every device.
    check       if a sampler returns assignments that violate the formula, drop them and draw others
                (info["drawn"], info["invalid"]). False: return them too; info["validity"] is the
                valid share.
    policy      the numbers by which "auto" chooses (`nelson.policy`); an ablation is
                `policy=nelson.Policy().without("joint")`.
    terms       products of variables with coefficients, a `Polynomial` phi or what `Polynomial.of`
                takes: P(x) ~ exp(theta . x + phi(x)) C(x) / Z. Exact where the formula with the
                products as variables has few structures or compiles; else chains whose moves know
                the terms, diagnosed by a pilot run. `sweeps` or the method `lovasz`: chains.
                For one vector theta, without `unique`, other `moves` and GPU.

    Returns `Samples`; `.status` is "budget" if there are fewer than n. Raises Unsatisfiable only
    if it was proved.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> s = nelson.sample(formula, [0.5, 0.0, -0.5], 1000, seed=0)
    >>> len(s), s.guarantee
    (1000, 'exact')
    >>> nelson.sample(formula, n=1000, given=[1], seed=0).mean()[[0, 2]]  # x1, and so x3
    array([1., 1.])
    >>> together = {(2, 3): 2.0}  # x2 and x3 like to be true together
    >>> nelson.sample(formula, n=1000, seed=0, terms=together).guarantee
    'exact'
    """
    return plan_of(formula, theta, Options.among(locals())).sample(n)


def plan(
    formula: Formula,
    theta: Any = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    method: str = "auto",
    *,
    sweeps: int | None = None,
    moves: str = "single",
    project: Iterable[int] | str | None = None,
    project_law: str = "marginal",
    threads: int | None = None,
    max_rounds: int = 1000,
    seconds: float | None = None,
    width: int | None = None,
    device: Any = None,
    check: bool = True,
    policy: Policy = DEFAULT,
    terms: Any = None,
) -> Plan:
    """Decide how to draw from P_theta(x | C), once: `plan.sample(n, seed=...)` then draws.

    The arguments are those of `nelson.sample`. seconds: for deciding, and again for each draw.

    >>> plan = nelson.plan(nelson.Formula([[1, 2], [-1, 3]]))
    >>> plan.why
    'extremal (Condition 1 holds): resampling alone is exact'
    >>> rows = plan.sample(1000, seed=0), plan.sample(1000, seed=1, theta=[1.0, 0.0, 0.0])
    """
    return plan_of(formula, theta, Options.among(locals())).decide()


def stream(
    formula: Formula,
    theta: Any = None,
    n: int | None = None,
    *,
    block: int = 65536,
    method: str = "auto",
    sweeps: int | None = None,
    moves: str = "single",
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | str | None = None,
    project_law: str = "marginal",
    unique: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    max_rounds: int = 1000,
    seconds: float | None = None,
    width: int | None = None,
    device: Any = None,
    check: bool = True,
    policy: Policy = DEFAULT,
) -> Iterator[Samples]:
    """The samples of `nelson.sample` in blocks of `block` samples, in constant memory.

    block: on a GPU a multiple of 64; elsewhere those are a little faster.

    All blocks together are the samples of one call with the same seed, for any `block`.

    unique: no sample occurs twice in the whole stream. The stream ends when no other sample exists;
    info["exhausted"] of its last block says that. To tell repeats, all samples are remembered, 8
    bytes for each 64 columns: memory grows with the number of samples drawn. The samples are those
    of one call until half of all solutions have come; the order of the others depends on `block`.

    n None: without end. Ctrl-C ends the stream with a last block (info["interrupted"]) that holds
    the samples finished so far, all complete and valid; `seconds` ends it in the same way.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> [len(block) for block in nelson.stream(formula, n=1000, block=448, seed=0)]
    [448, 448, 104]
    """
    return Plan(formula, theta, Options.among(locals())).stream(n, block=block)
