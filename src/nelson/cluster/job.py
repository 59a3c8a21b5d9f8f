"""`nelson.cluster.sample`: n samples, drawn by many processes, in a folder of Parquet parts.

    shard k = samples k S .. (k + 1) S - 1,    S a multiple of 64

Random numbers are keyed by the sample's number, so the rows are those of `nelson.sample` with the
same seed, whatever the number of workers, the size of shards, or how often it was stopped. `auto`
decides once, here, and what it found out goes to the workers with the job. What a shard's file
holds depends on nothing else, so a shard that is drawn again, since its worker died, is the same
file.

Ray does the rest (`engine.py`): it hands shards to workers, replaces those that die, and runs on
one machine or on many.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nelson.cluster import engine, parts
from nelson.cluster.identity import described, known_of, seed_of, shard_of
from nelson.cluster.part_files import Store, store
from nelson.cluster.read import Folder
from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import count as whole_number
from nelson.sampling.options import Options
from nelson.sampling.plan import make_plan
from nelson.sampling.shards import Settled, settle


def sample(
    formula: Formula,
    theta: Any = None,
    n: int = 1,
    out: str | os.PathLike[str] = "",
    *,
    address: str | None = None,
    method: str = "auto",
    sweeps: int | None = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    project: Iterable[int] | None = None,
    seed: int | None = None,
    max_rounds: int = 1000,
    check: bool = True,
    names: Sequence[str] | None = None,
    shard: int | None = None,
    workers: int | None = None,
    threads: int = 1,
    retries: int = 5,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Folder:
    """Draw n samples of P_theta(x | C) into a folder, on a Ray cluster; -> `nelson.read(out)`.

    out         folder, or a URI that pyarrow knows (s3://bucket/folder). One that holds a part of
                this job is gone on with; one that holds another job is an error.
    address     of a Ray cluster: "auto", "host:6379", "ray://host:10001". None: one of our own, on
                this machine, reachable from this machine only, gone at the end.
    names       one for each variable; kept in the files, columns of DataFrames.
    shard       samples a part, a multiple of 64 (default: about 128 MB a part, 16 parts at least).
    workers     processes at a time (default: all cores, of the cluster where there is an address).
    threads     cores of each.
    retries     times that a shard is drawn again if its worker dies.
    seconds     stop after this long; what is there is kept, and the same call goes on later. (If
                this process was connected to Ray before, shards that were begun are finished.)
    progress    called with the number of samples that are safe, whenever that grows.

    The other arguments are those of `nelson.sample`, and so are the samples. A sampler whose random
    numbers are not keyed by the sample (cmsgen, unigen, rejection, ...) gets a seed a shard: its
    samples depend on `shard`, but on nothing else.
    """
    started, options = time.monotonic(), Options.among(locals())
    if not os.fspath(out):
        raise FormulaError("no folder to write to", expected='out="folder/"')
    if workers is not None and not whole_number(workers, "workers"):
        raise FormulaError("workers = 0", expected="1 or more")
    engine.require()
    engine.reachable(address)
    where = store(out)
    job = described(formula, theta, n, method, sweeps, given, project, max_rounds, check, names)
    job |= {"seed": seed_of(seed), "shard": shard_of(shard, job)}
    files = where.sizes()
    known = known_of(where, files, job, seeded=seed is not None, sized=shard is not None)
    if known is not None:
        job |= {"seed": known["seed"], "shard": known["shard"]}
    layout = shards(job["n"], job["shard"])
    found = parts.finished_parts(where, files) if known is not None else {}
    run = _Run(where, {f: p for f, p in found.items() if layout.get(f) == p["asked"]}, progress)
    missing = [(first, size) for first, size in layout.items() if first not in run.done]
    note: dict[str, Any] = {"kept": len(run.done), "drawn": len(missing)}
    if known is None or missing:
        settled = _settled(formula, theta, job, options)
        job |= _decided(settled)
        _begin(where, job, known)
        until = None if seconds is None else started + seconds
        try:
            run.draw(job, settled, missing, until, address, workers, threads, retries)
        finally:
            if len(run.done) == len(layout) or not engine.require().is_initialized():
                where.tidy()  # nobody is writing any more
        note |= {"drawn": len(run.done) - note["kept"], **run.note}
        if len(run.done) == len(layout):
            parts.write_manifest(where, job, run.done.values())
    elif parts.MANIFEST not in files:
        parts.write_manifest(where, known, run.done.values())
    note["seconds"] = time.monotonic() - started
    return Folder(where, partial=len(run.done) < len(layout), note=note)


def shards(n: int, size: int) -> dict[int, int]:
    """First sample -> number of samples, of each shard."""
    return {first: min(size, n - first) for first in range(0, n, size)}


def _settled(formula: Formula, theta: Any, job: Mapping[str, Any], options: Options) -> Settled:
    """What `nelson.sample` would do, decided and found out."""
    project = None if options.project is None else job["variables"]
    options = replace(options, seed=job["seed"], project=project, seconds=None)
    return settle(make_plan(formula, theta, job["n"], options))


def _decided(settled: Settled) -> dict[str, Any]:
    plan = settled.plan
    return {
        "method": plan.sampler.name,
        "sweeps": plan.sweeps,
        "guarantee": plan.guarantee,
        "why": plan.choice.why,
        "keyed": "sample" if settled.numbered else "shard",
        "digest": settled.digest,
    }


def _begin(where: Store, job: Mapping[str, Any], known: Mapping[str, Any] | None) -> None:
    """Say whose folder it is, or see that it is ours."""
    if known is None:
        where.make()
        parts.write_json(where, parts.JOB, job)
    elif known["digest"] != job["digest"]:
        raise NelsonError(
            f"{where}: begun with {known['method']}; here and now the same call comes to "
            f"{job['method']}, or to other starts or circuits of it. Finish it where it was begun, "
            "or use another folder"
        )
    where.tidy()


@dataclass
class _Run:
    where: Store
    done: dict[int, parts.Manifest]
    progress: Callable[[int], None] | None
    note: dict[str, Any] = field(default_factory=dict)

    def draw(
        self,
        job: Mapping[str, Any],
        settled: Settled,
        missing: Sequence[tuple[int, int]],
        deadline: float | None,
        address: str | None,
        workers: int | None,
        threads: int,
        retries: int,
    ) -> None:
        """Shards to workers; what comes back is on disk, whatever happens next."""
        from nelson.cluster.shards import Work, draw_shard

        safe = sum(part["count"] for part in self.done.values())
        self.tell(safe)
        if not missing:
            return
        blob = Work(self.where, job, settled).pickled()
        peak, busy = 0.0, 0.0
        with engine.cluster(address, workers, threads) as ray:
            tasks = engine.Tasks(ray, workers, threads, retries)
            self.note["workers"] = tasks.slots()
            for manifest, told in tasks.results(draw_shard, blob, missing, deadline):
                self.done[manifest["first"]] = manifest
                peak, busy = max(peak, told["peak_mb"]), busy + told["seconds"]
                self.note |= {"peak_mb": peak, "busy": busy}
                safe += manifest["count"]
                self.tell(safe)

    def tell(self, safe: int) -> None:
        if self.progress:
            self.progress(safe)
