"""`nelson.cluster.sample`: n samples in a folder of Parquet parts, drawn by one process or many.

    part k = samples k R .. (k + 1) R - 1,    R a multiple of 64

Random numbers are keyed by the sample's number, so the rows are those of `nelson.sample` with the
same seed, whoever draws which part, however often it is interrupted. A run is a map over parts:

    here              one part after the other, on all cores
    shard="3/100"     the third hundredth of the parts; other processes draw the others (`xargs`,
                      arrays of Slurm, jobs of Kubernetes), and nobody needs to talk to anybody
    address="auto"    tasks on a Ray cluster that runs already (`ray_cluster.py`)

All that they share is the folder. Its first file is created exclusively; it holds the request, the
seed, and a digest of what `auto` decided. A process that would draw from another law is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson._version import __version__
from nelson.budget import Budget, TimeUp
from nelson.cluster import parts, ray_cluster
from nelson.cluster.draw import Drawn, Work, draw_part, draw_pickled
from nelson.cluster.read import Folder
from nelson.cluster.store import Store
from nelson.errors import FormulaError, NelsonError, shortened
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows
from nelson.formula.checks import count as whole_number
from nelson.io.arrow import load_pyarrow
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.shards import MOST, Settled, settle

if TYPE_CHECKING:
    from nelson.space.plan import SpacePlan

#: Bytes of packed bits in a part, at most: a process holds one part in memory.
_PART_BYTES = 128 << 20
#: A job is divided into this many parts, so that workers end at about the same time, ...
_MIN_PARTS = 16
#: ... unless these would have fewer samples than this.
_MIN_ROWS = 1 << 16
#: In messages: what some keys of a job mean.
_WORDS = {"asked": "method, sweeps, law", "given": "evidence", "nelson": "version of nelson"}


def sample(
    formula: Formula | SpacePlan,
    theta: Any = None,
    n: int = 1,
    out: str | os.PathLike[str] = "",
    *,
    shard: str | None = None,
    address: str | None = None,
    method: str = "auto",
    sweeps: int | None = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | str | None = None,
    project_law: str = "marginal",
    seed: int | None = None,
    max_rounds: int = 1000,
    check: bool = True,
    names: Sequence[str] | None = None,
    columns: bool = False,
    part_rows: int | None = None,
    verify: bool = True,
    workers: int | None = None,
    threads: int | None = None,
    retries: int = 5,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Folder:
    """Draw n samples of P_theta(x | C) into a folder; -> `nelson.read(out)`.

    formula     or `space.plan(...)`: then the folder has the columns of the space, and the law is
                that of the plan.
    out         folder, or a URI that fsspec opens (s3://bucket/folder). If it holds parts of this
                job, the job is continued; if it holds another job, that is an error.
    shard       "3/100": only the third hundredth of the parts, for whoever starts 100 processes.
    address     of a Ray cluster that draws: "auto", "host:6379", "ray://host:10001". None: this
                process draws.
    names       one for each variable; names of columns.
    columns     a Boolean column for each variable. Default: one column of packed bits.
    part_rows   samples per part, a multiple of 64 (default: at most 128 MB, at least 16 parts).
    verify      compare the checksums of parts that are there already, and draw damaged ones again.
                False: their names suffice, which one listing gives.
    workers     on a Ray cluster: processes at a time (default: as many as it has cores for).
    threads     cores of each process (default: one on a Ray cluster, here all).
    retries     on a Ray cluster: how often a part is drawn again after its worker died.
    seconds     stop after this long. Finished parts are kept, and the same call continues later.
    progress    called with the number of samples on disk, whenever that grows.

    The other arguments are those of `nelson.sample`, and the samples are the same. A sampler whose
    random numbers are not keyed by the sample (cmsgen, unigen, rejection, ...) gets one seed for
    each part: its samples depend on `part_rows`, and on nothing else.
    """
    started = time.monotonic()
    if not os.fspath(out):
        raise FormulaError("no folder to write to", expected='out="folder/"')
    load_pyarrow()
    if address is not None:
        ray_cluster.check_reachable(address)
        threads = threads or 1
    if isinstance(formula, Formula):
        # `auto` decides by counted work: a clock would decide differently in each process.
        options = Options.among(locals() | {"seconds": None})
        plan, space, layout = Plan(formula, theta, options), None, parts.LAYOUTS[bool(columns)]
    else:
        space, plan, theta = formula.inside
        layout, options = "rows", replace(plan.options, threads=threads, seed=seed, seconds=None)
    if options.unique or options.gpu is not None:
        raise FormulaError(
            "distinct rows, or a GPU, in a folder of parts", expected="nelson.sample"
        )
    (k, of), store, budget = _shard(shard), Store(out), Budget.of(seconds)
    wanted = _described(plan, theta, n, layout, names, space)
    wanted |= {"seed": seed, "part_rows": _part_rows(part_rows)}

    @lru_cache(maxsize=1)
    def settled(seed: int) -> Settled:
        return settle(plan.drawing(n, replace(options, seed=seed)))

    job, held = _join_or_begin(store, wanted, settled, of, space)
    total = -(-job["n"] // job["part_rows"])
    size = job["part_rows"]
    firsts = range(total * (k - 1) // of * size, total * k // of * size, size)
    done = {first: held[first] for first in firsts if first in held}
    tasks = [(first, done.get(first)) for first in firsts if verify or first not in done]
    note: dict[str, Any] = {"kept": len(done), "drawn": 0}
    if tasks:
        _check_decisions(store, job, settled(job["seed"]))
        work = Work(store, job, settled(job["seed"]), space)
        if address is None:
            results = _here(work, tasks, budget)
        else:
            how: Any = {"workers": workers, "cpus": threads or 1, "retries": retries}
            how["deadline"] = budget.deadline
            results = ray_cluster.results(address, draw_pickled, work.pickled(), tasks, **how)
        note |= _collected(results, done, progress or (lambda samples: None))
    note["seconds"] = time.monotonic() - started
    return Folder(store, job, done.values(), firsts=firsts, note=note)


def _here(work: Work, tasks: Iterable[Any], budget: Budget) -> Iterator[Drawn]:
    """One part after the other, in this process."""
    for task in tasks:
        if budget.spent:
            return
        try:
            with budget.enforced():  # not around `yield`: the caller would be under the deadline
                drawn = draw_part(work, task)
        except TimeUp:
            return
        yield drawn


def _collected(
    results: Iterable[Drawn], done: dict[int, parts.Part], report: Callable[[int], None]
) -> dict[str, Any]:
    """Adds each part to `done` when it is on disk; -> what is to be said about the run."""
    drawn, busy, peak = 0, 0.0, 0.0
    written = sum(part.rows for part in done.values())
    report(written)
    for result in results:
        before, done[result.part.first] = done.get(result.part.first), result.part
        drawn, busy = drawn + (not result.kept), busy + result.seconds
        peak = max(peak, result.peak_mb)
        written += result.part.rows - (before.rows if before else 0)
        report(written)
    return {"kept": len(done) - drawn, "drawn": drawn, "busy": busy, "peak_mb": peak}


# ----------------------------------------------------------------------------- the job of a folder


def _join_or_begin(
    store: Store,
    wanted: Mapping[str, Any],
    settled: Callable[[int], Settled],
    shards: int,
    space: Any,
) -> tuple[dict[str, Any], dict[int, parts.Part]]:
    """The job of the folder, and the parts that are there. The folder's own seed and size of parts
    are taken where `wanted` has None.
    """
    job, sizes = parts.read_job(store), store.sizes()
    if job is None:
        if found := [name for name in sizes if name.endswith(".parquet")]:
            raise NelsonError(f"{store}: holds {found[0]}, but no {parts.JOB}; use another folder")
        seed = secrets.randbits(63) if wanted["seed"] is None else int(wanted["seed"])
        rows = wanted["part_rows"] or _default_rows(wanted, shards)
        new = {**wanted, "seed": seed, "part_rows": rows, **_decided(settled(seed))}
        now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        new["begun"] = f"{now} on {socket.gethostname()} by process {os.getpid()}"
        if store.begin(parts.JOB, parts.job_file(new, space)):
            return new, {}
        job, sizes = parts.read_job(store), store.sizes()  # another process was a moment earlier
        assert job is not None
    for key, value in wanted.items():
        if job.get(key) != value and not (value is None and key in ("seed", "part_rows")):
            raise NelsonError(
                f"{store} holds another job, begun {job['begun']}: its {_WORDS.get(key, key)} is "
                f"{shortened(repr(job.get(key)))}, not {shortened(repr(value))}; use another folder"
            )
    return job, parts.listed(sizes, job, str(store))


def _decided(settled: Settled) -> dict[str, Any]:
    """The decisions of a plan, in plain values."""
    plan = settled.drawing
    return {
        "method": plan.sampler.name,
        "sweeps": plan.sweeps,
        "guarantee": plan.guarantee,
        "why": plan.choice.why,
        "keyed": "sample" if settled.numbered else "part",
        "law": settled.digest,
    }


def _check_decisions(store: Store, job: Mapping[str, Any], settled: Settled) -> None:
    if (here := _decided(settled))["law"] != job["law"]:
        raise NelsonError(
            f"{store}: begun with {job['method']}; here the same call leads to {here['method']}, "
            "or to other starts or circuits. Name the method, or use another folder"
        )


def _described(
    plan: Plan, theta: Any, n: int, layout: str, names: Sequence[str] | None, space: Any
) -> dict[str, Any]:
    """The request in plain values, equal for equal requests."""
    formula, options = plan.formula, plan.options
    if whole_number(n, "n") > MOST:
        raise FormulaError(f"n = {n:,}", expected=f"at most 2^46 = {MOST:,}")
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError("several theta rows", expected="one theta vector")
    chosen = checked_projection(options.project, formula.n_vars)
    variables = list(range(1, formula.n_vars + 1)) if chosen is None else list(chosen)
    if names is not None:
        if len(names) != formula.n_vars:
            raise FormulaError(
                f"{len(names)} names", expected=f"{formula.n_vars}, one per variable"
            )
        names = [str(names[variable - 1]) for variable in variables]
        if layout == "columns" and len(set(names)) < len(names):
            raise FormulaError("columns of the same name", expected="a different name for each")
    evidence = evidence_literals(() if options.given is None else options.given, formula.n_vars)
    return {
        "format": parts.FORMAT,
        "version": parts.VERSION,
        "nelson": __version__,
        "formula": digest_of(formula),
        "theta": hashlib.sha256(rows.tobytes()).hexdigest()[:32] if rows.any() else None,
        "given": sorted(evidence.tolist(), key=abs),
        "variables": variables,
        "names": names,
        "fields": None if space is None else [repr(field) for field in space.fields.values()],
        "layout": layout,
        "n": int(n),
        "asked": [options.method, options.sweeps, options.project_law],
        "max_rounds": options.max_rounds,
        "check": bool(options.check),
    }


def digest_of(formula: Formula) -> str:
    """A digest of the clauses and the number of variables."""
    digest = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} {formula.n_clauses}\n".encode())
    digest.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    digest.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    return digest.hexdigest()[:32]


def _shard(text: str | None) -> tuple[int, int]:
    """(3, 100) of "3/100"."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text or "1/1").strip())
    k, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= k <= of:
        raise FormulaError(f"shard {text!r}", expected='"1/N" to "N/N", such as "3/100"')
    return k, of


def _part_rows(rows: int | None) -> int | None:
    if rows is not None and (whole_number(rows, "part_rows") <= 0 or rows % 64):
        raise FormulaError(f"part_rows = {rows}", expected="a positive multiple of 64")
    return None if rows is None else int(rows)


def _default_rows(job: Mapping[str, Any], shards: int) -> int:
    """Samples per part: a multiple of 64, at least one part for each shard if n allows it."""
    fits = _PART_BYTES // 64 // max(1, -(-len(job["variables"]) // 8))
    even = -(-job["n"] // 64 // max(_MIN_PARTS, shards))
    least = 1 if shards > 1 else _MIN_ROWS // 64
    return 64 * min(max(least, even), max(1, fits))
