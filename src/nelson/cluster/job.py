"""`nelson.cluster.sample`: n samples, drawn by many processes, in a folder of Parquet parts.

    shard k = samples k S .. (k + 1) S - 1,    S a multiple of 64

Random numbers are keyed by the sample's number, so the rows are those of `nelson.sample` with the
same seed, for any number of workers, any size of shards, and any number of interruptions. `auto`
decides once, here; its decisions, starts of chains and circuits go to the workers with the job. The
file of a shard depends on nothing else: drawn again after its worker died, it is the same bytes.

Ray (`ray_cluster.py`) hands shards to workers, replaces workers that die, and runs on one machine
or on many.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nelson.cluster import parts, ray_cluster
from nelson.cluster.identity import described, known_of, seed_of, shard_of
from nelson.cluster.job_files import JobFiles, files_at
from nelson.cluster.read import Folder
from nelson.cluster.worker import WorkerJob, draw_shard
from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import count as whole_number
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
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
    project: Iterable[int] | str | None = None,
    project_law: str = "marginal",
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

    out         folder, or a URI that pyarrow opens (s3://bucket/folder). If it holds a part of this
                job, the job is continued; if it holds another job, that is an error.
    address     of a Ray cluster: "auto", "host:6379", "ray://host:10001". None: start Ray on this
                machine, reachable from this machine only, and stop it at the end.
    names       one for each variable; kept in the files, columns of DataFrames.
    shard       samples per part, a multiple of 64 (default: at most 128 MB, at least 16 parts).
    workers     processes at a time (default: all cores of the machine or the cluster).
    threads     cores of each worker.
    retries     how often a shard is drawn again after its worker died.
    seconds     stop after this long. Finished parts are kept, and the same call continues later.
                (If this process was connected to Ray before, shards in progress are finished.)
    progress    called with the number of samples on disk, whenever that grows.

    The other arguments are those of `nelson.sample`, and the samples are the same. A sampler whose
    random numbers are not keyed by the sample (cmsgen, unigen, rejection, ...) gets one seed for
    each shard: its samples depend on `shard`, but not on the workers.
    """
    started, options = time.monotonic(), Options.among(locals())
    if not os.fspath(out):
        raise FormulaError("no folder to write to", expected='out="folder/"')
    if workers is not None and not (workers := whole_number(workers, "workers")):
        raise FormulaError("workers = 0", expected="1 or more")
    ray_cluster.require_ray()
    ray_cluster.check_reachable(address)
    ray_cluster.remove_abandoned()  # also if no part is missing, and no cluster is started
    files = files_at(out)
    job = described(
        formula, theta, n, method, sweeps, given, options.project, max_rounds, check, names
    )
    if project_law != "marginal":
        job["asked"].append(project_law)
    job |= {"seed": seed_of(seed), "shard": shard_of(shard, job)}
    sizes = files.sizes()
    known = known_of(files, sizes, job, seeded=seed is not None, sized=shard is not None)
    if known is not None:
        job |= {"seed": known["seed"], "shard": known["shard"]}
    shards = shard_sizes(job["n"], job["shard"])
    finished = parts.finished_parts(files, sizes) if known is not None else {}
    done = {first: p for first, p in finished.items() if shards.get(first) == p["asked"]}
    missing = [(first, size) for first, size in shards.items() if first not in done]
    note: dict[str, Any] = {"kept": len(done), "drawn": 0}
    if known is None or missing:
        settled = _settled(formula, theta, job, options)
        job |= _decided(settled)
        _begin(files, job, known)
        work = WorkerJob(files, job, settled)
        deadline = None if seconds is None else started + seconds
        resources = _Resources(address, workers, threads, retries, deadline)
        try:
            note |= _draw(work, missing, done, resources, progress)
        finally:
            if len(done) == len(shards) or not ray_cluster.require_ray().is_initialized():
                files.tidy()  # no worker is writing any more
        note["drawn"] = len(done) - note["kept"]
    if len(done) == len(shards) and (known is None or missing or parts.MANIFEST not in sizes):
        parts.write_json(files, parts.MANIFEST, parts.combined(known or job, done.values()))
    note["seconds"] = time.monotonic() - started
    return Folder(files, partial=len(done) < len(shards), note=note)


def shard_sizes(n: int, size: int) -> dict[int, int]:
    """First sample -> number of samples, of each shard."""
    return {first: min(size, n - first) for first in range(0, n, size)}


def _settled(formula: Formula, theta: Any, job: Mapping[str, Any], options: Options) -> Settled:
    """The plan of `nelson.sample`, with starts and circuits already found."""
    project = None if options.project is None else job["variables"]
    options = replace(options, seed=job["seed"], project=project, seconds=None)
    return settle(Plan(formula, theta, options).drawing(job["n"]))


def _decided(settled: Settled) -> dict[str, Any]:
    """The decisions of a plan, in plain values."""
    plan = settled.drawing
    return {
        "method": plan.sampler.name,
        "sweeps": plan.sweeps,
        "guarantee": plan.guarantee,
        "why": plan.choice.why,
        "keyed": "sample" if settled.numbered else "shard",
        "digest": settled.digest,
    }


def _begin(files: JobFiles, job: Mapping[str, Any], known: Mapping[str, Any] | None) -> None:
    """Write `job.json`, or compare the decisions with those of the job that is continued."""
    if known is None:
        files.make()
        parts.write_json(files, parts.JOB, job)
    elif known["digest"] != job["digest"]:
        raise NelsonError(
            f"{files}: begun with {known['method']}; here the same call leads to {job['method']}, "
            "or to other starts or circuits. Continue on the machine where it was begun, or use "
            "another folder"
        )
    files.tidy()


@dataclass(frozen=True)
class _Resources:
    address: str | None
    workers: int | None
    threads: int
    retries: int
    deadline: float | None


def _draw(
    work: WorkerJob,
    missing: Sequence[tuple[int, int]],
    done: dict[int, parts.Manifest],
    use: _Resources,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Hand the missing shards to workers, and add each to `done` when its part is on disk.

    Returns the number of workers, the most memory (MB) of one, and their seconds together.
    """
    report = progress or (lambda samples: None)
    written = sum(part["count"] for part in done.values())
    report(written)
    if not missing:
        return {}
    blob = work.pickled()
    with ray_cluster.connected(use.address, use.workers, use.threads) as ray:
        tasks = ray_cluster.Tasks(ray, use.workers, use.threads, use.retries)
        usage = {"workers": tasks.slots(), "peak_mb": 0.0, "busy": 0.0}
        for manifest, used in tasks.results(draw_shard, blob, missing, use.deadline):
            done[manifest["first"]] = manifest
            usage["peak_mb"] = max(usage["peak_mb"], used["peak_mb"])
            usage["busy"] += used["seconds"]
            written += manifest["count"]
            report(written)
    return usage
