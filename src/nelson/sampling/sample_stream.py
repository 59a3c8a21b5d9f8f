"""`nelson.sample` and `nelson.stream`: a formula and theta in, verified samples out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.formula.checks import count
from nelson.sampling.collect import collect, in_blocks
from nelson.sampling.device.draw import collect_on_gpu, in_blocks_on_gpu
from nelson.sampling.distinct import distinct, in_distinct_blocks
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan, make_plan
from nelson.sampling.samples import Samples


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
                "lovasz", with `sweeps`. A joint move costs more, and moves variables that the
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

    Returns `Samples`; `.status` is "budget" if there are fewer than n. Raises Unsatisfiable only
    if it was proved.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> s = nelson.sample(formula, [0.5, 0.0, -0.5], 1000, seed=0)
    >>> len(s), s.guarantee
    (1000, 'exact')
    >>> nelson.sample(formula, n=1000, given=[1], seed=0).mean()[[0, 2]]  # x1, and so x3
    array([1., 1.])
    """
    return draw(formula, theta, n, Options.among(locals()))


def draw(formula: Formula, theta: Any, n: int, options: Options) -> Samples:
    """`nelson.sample` with its options in one object."""
    started = time.monotonic()
    plan = make_plan(formula, theta, n, options)
    samples = distinct(plan, started) if options.unique else carry_out(plan, started)
    if options.strict and samples.status != "ok":
        raise BudgetExceeded(f"{len(samples)} of {plan.n} samples: {samples.info['reason']}")
    return samples


def carry_out(plan: Plan, started: float) -> Samples:
    """All samples of a plan, drawn on the device that it names. started: time.monotonic()."""
    return collect(plan, started) if plan.gpu is None else collect_on_gpu(plan, started)


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
) -> Iterator[Samples]:
    """The samples of `nelson.sample` in blocks of `block` (a multiple of 64), in constant memory.

    All blocks together are the samples of one call with the same seed, for any `block`. Samplers of
    other packages are the exception: they get a seed for each block.

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
    options = Options.among(locals())
    if not (block := count(block, "block")) or block % 64:
        raise FormulaError(f"block = {block}", expected="a positive multiple of 64")
    return draw_blocks(formula, theta, n, block, options)


def draw_blocks(
    formula: Formula, theta: Any, n: int | None, block: int, options: Options
) -> Iterator[Samples]:
    """`nelson.stream` with its options in one object."""
    plan = make_plan(formula, theta, n, options)
    if len(plan.parts) > 1:
        raise FormulaError(
            "a stream over contexts with different evidence", expected="one stream for each"
        )
    if options.unique:
        return in_distinct_blocks(plan, block)
    return in_blocks(plan, block) if plan.gpu is None else in_blocks_on_gpu(plan, block)
