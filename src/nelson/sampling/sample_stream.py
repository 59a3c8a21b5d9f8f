"""`nelson.sample` and `nelson.stream`: a formula and theta in, verified samples out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.sampling.collect import collect, in_blocks
from nelson.sampling.device import device as card
from nelson.sampling.device import draw as gpu
from nelson.sampling.distinct import distinct
from nelson.sampling.plan import Plan, make_plan
from nelson.sampling.samples import Samples


def sample(
    formula: Formula,
    theta: Any = None,
    n: int = 1,
    *,
    method: str = "auto",
    sweeps: int | None = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | None = None,
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
    method      "auto", or a name of `nelson.samplers()`; `nelson.sampling.registry.describe()` says what
                each promises and needs.
    sweeps      heat-bath sweeps of the valid space after resampling (of all states, for "gibbs");
                None: as `method` needs.
    given       partial assignment, {3: True, 5: False} or [3, -5].
    project     variables to return, in this order: the marginal of the law on them.
    unique      distinct samples only (drawn one after the other, repeats skipped).
    seed        same seed, same samples: on any number of threads, in any batch.
    threads     default: all cores.
    max_rounds, seconds: the budget; compilation in a first call is not counted. Samplers without
                rounds have a default number of seconds.
    strict      raise BudgetExceeded if the budget ends with fewer than n samples.
    width       64-bit words a row of the kernel; never changes a sample.
    device      "cuda", "cuda:1", a torch.device: draw there and leave the samples there
                (`DeviceSamples`); the same seed gives the same samples on every device.
    check       of a sampler that may emit invalid assignments, drop those and draw others
                (info["drawn"], info["invalid"]). False: hand them out as drawn; info["validity"]
                is the share that is valid.

    Returns `Samples`; `.status` is "budget" if there are fewer than n. Raises Unsatisfiable only
    if that was proved.
    """
    started = time.monotonic()
    index = card.number(device)
    plan = _plan(
        formula,
        theta,
        n,
        index,
        method=method,
        sweeps=sweeps,
        given=given,
        project=project,
        seed=seed,
        threads=threads,
        max_rounds=max_rounds,
        seconds=seconds,
        width=width,
        check=check,
    )
    samples = _drawn(plan, unique, index, started)
    if strict and samples.status != "ok":
        raise BudgetExceeded(f"{len(samples)} of {n} samples: {samples.info['reason']}")
    return samples


def _plan(
    formula: Formula, theta: Any, n: int | None, index: int | None, *, method: str, **options: Any
) -> Plan:
    """The plan of a call; index: of a GPU, where `auto` is a choice of its own."""
    if index is None or method != "auto":
        return make_plan(formula, theta, n, method=method, **options)
    plan = make_plan(formula, theta, n, method="lovasz", **options)
    return gpu.automatic(plan) if options["sweeps"] is None else plan


def _drawn(plan: Plan, unique: bool, index: int | None, started: float) -> Samples:
    if index is None:
        return distinct(plan, started) if unique else collect(plan, started)
    if unique:
        raise FormulaError('unique=True with device="cuda"', expected='device="cpu"')
    return gpu.collect(plan, index, started)


def stream(
    formula: Formula,
    theta: Any = None,
    n: int | None = None,
    *,
    block: int = 65536,
    method: str = "auto",
    sweeps: int | None = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    max_rounds: int = 1000,
    seconds: float | None = None,
    width: int | None = None,
    device: Any = None,
    check: bool = True,
) -> Iterator[Samples]:
    """The samples of `nelson.sample`, in blocks of `block` (a multiple of 64), in constant memory.

    n None: without end. Ctrl-C ends the stream with what was finished, complete and valid, as a
    last block (info["interrupted"]); so does `seconds`.
    """
    if block <= 0 or block % 64:
        raise FormulaError(f"block = {block}", expected="a positive multiple of 64")
    index = card.number(device)
    plan = _plan(
        formula,
        theta,
        n,
        index,
        method=method,
        sweeps=sweeps,
        given=given,
        project=project,
        seed=seed,
        threads=threads,
        max_rounds=max_rounds,
        seconds=seconds,
        width=width,
        check=check,
    )
    if len(plan.parts) > 1:
        raise FormulaError(
            "a stream over contexts with different evidence", expected="one stream for each"
        )
    if index is not None:
        return gpu.in_blocks(plan, index, block)
    return in_blocks(plan, block)
