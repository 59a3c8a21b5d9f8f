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

import os
import pickle
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nelson._version import __version__
from nelson.budget import Budget, TimeUp
from nelson.cluster import parts, ray_cluster
from nelson.cluster.law import Law, request_of
from nelson.cluster.read import Folder
from nelson.cluster.store import Store
from nelson.errors import FormulaError, NelsonError, shortened
from nelson.formula import Formula
from nelson.formula.checks import count as whole_number
from nelson.sampling.shards import MOST

if TYPE_CHECKING:
    from nelson.space.plan import SpacePlan
    from nelson.space.tables.model import TableModel

#: Bytes of a part, at most: a process holds one part in memory.
_PART_BYTES = 128 << 20
#: A job is divided into this many parts, so that workers end at about the same time, ...
_MIN_PARTS = 16
#: ... unless these would have fewer samples than this.
_MIN_ROWS = 1 << 16
#: The first sample of a part, and the part that is there already; a part, and was it drawn now?
Task = tuple[int, parts.Part | None]
Result = tuple[parts.Part, bool]


def sample(
    formula: Formula | SpacePlan | TableModel,
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
    terms: Any = None,
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

    formula     or `space.plan(...)`, or the model of a table: then the folder has the columns of
                the space or table, and the law is that of the plan or model (`given` too).
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

    The other arguments are those of `nelson.sample`, and the samples are the same. Samplers whose
    random numbers have no number of the sample (cmsgen, unigen, rejection), laws with terms, and
    models of tables get one seed for each part: their samples depend on `part_rows`, too.
    """
    started, report = time.monotonic(), progress or (lambda samples: None)
    if not os.fspath(out):
        raise FormulaError("no folder to write to", expected='out="folder/"')
    if address is not None:
        ray_cluster.check_reachable(address)
        threads = threads or 1
    if whole_number(n, "n") > MOST:
        raise FormulaError(f"n = {n:,}", expected=f"at most 2^46 = {MOST:,}")
    if part_rows is not None and (whole_number(part_rows, "part_rows") <= 0 or part_rows % 64):
        raise FormulaError(f"part_rows = {part_rows}", expected="a positive multiple of 64")
    (k, of), store, budget = _shard(shard), Store(out), Budget.of(seconds)
    request, decide = request_of(formula, theta, int(n), locals())
    law_of = lru_cache(maxsize=1)(decide)
    wanted = {"format": parts.FORMAT, "version": parts.VERSION, "nelson": __version__, **request}
    wanted |= {"n": int(n), "seed": seed, "part_rows": part_rows and int(part_rows)}
    job = _joined_or_begun(store, wanted, law_of, of)
    held, size = parts.listed(store.sizes(), job, str(store)), job["part_rows"]
    total = -(-job["n"] // size)
    firsts = range(total * (k - 1) // of * size, total * k // of * size, size)
    done = {first: held[first] for first in firsts if first in held}
    tasks = [(first, done.get(first)) for first in firsts if verify or first not in done]
    drawn, written = 0, sum(part.rows for part in done.values())
    report(written)
    if tasks:
        work = Work(store, job, law_of(job["seed"]))
        if work.law.decided["law"] != job["law"]:
            raise NelsonError(
                f"{store}: begun with {job['method']}; here the same call leads to "
                f"{work.law.decided['method']}, or to other starts or circuits. Name the method, "
                "or use another folder"
            )
        results = work.here(tasks, budget)
        if address is not None:
            how: Any = {"workers": workers, "cpus": threads, "retries": retries}
            results = work.on_ray(address, tasks, how | {"deadline": budget.deadline})
        for part, new in results:
            written += part.rows - (done[part.first].rows if part.first in done else 0)
            drawn, done[part.first] = drawn + new, part
            report(written)
    note = {"kept": len(done) - drawn, "drawn": drawn, "seconds": time.monotonic() - started}
    return Folder(store, job, done.values(), firsts=firsts, note=note)


class Work(NamedTuple):
    """All that is needed to draw any part of a job, in any process."""

    store: Store
    job: Mapping[str, Any]
    law: Law

    def part(self, task: Task) -> Result:
        """A part that is there and not what it should be is drawn again."""
        (first, held), job, store = task, self.job, self.store
        if held is not None:
            data = store.read(held.name)
            if data is not None and parts.fault(data, held, job) is None:
                return held, False
        tables = self.law.tables(first, parts.size_at(first, job))
        new, data = parts.part_file(job, self.law.schema, tables, first)
        if held is not None and held.name != new.name:
            store.remove(held.name)
        store.write(new.name, data)
        return new, True

    def here(self, tasks: Iterable[Task], budget: Budget) -> Iterator[Result]:
        for task in tasks:
            try:
                with budget.enforced():  # not around `yield`: the caller would be under it
                    result = None if budget.spent else self.part(task)
            except TimeUp:
                return
            if result is None:
                return
            yield result

    def on_ray(self, address: str, tasks: Iterable[Task], how: Any) -> Iterator[Result]:
        # As bytes: Ray would hand out the arrays read-only, in shared memory. For Numba a read-only
        # array is another type, and it would compile every kernel again.
        blob = pickle.dumps(self, protocol=5)
        for _, result in ray_cluster.results(address, draw, blob, tasks, **how):
            if isinstance(result, Exception):
                raise result
            yield result


def draw(blob: bytes, task: Task) -> Result:
    """In a Ray worker."""
    work = _unpickled(blob)
    if work.job["nelson"] != __version__:
        raise NelsonError(
            f"a worker has nelson {__version__}, the job was started by nelson "
            f"{work.job['nelson']}; install the same version on all machines"
        )
    return work.part(task)


@lru_cache(maxsize=1)
def _unpickled(blob: bytes) -> Work:
    """Unpickled once for all parts that a process draws."""
    work: Work = pickle.loads(blob)
    return work


def _joined_or_begun(
    store: Store, wanted: Mapping[str, Any], law_of: Callable[[int], Law], shards: int
) -> dict[str, Any]:
    """The job of the folder, whose seed and size of parts are taken where `wanted` has None."""
    if (job := parts.read_job(store)) is None:
        names = store.sizes()  # the job file is among them if another process began meanwhile
        tables = [name for name in names if name.endswith(".parquet")]
        if tables and parts.JOB not in names:
            raise NelsonError(f"{store}: holds {tables[0]}, but no {parts.JOB}; use another folder")
        seed = secrets.randbits(63) if wanted["seed"] is None else int(wanted["seed"])
        law, rows = law_of(seed), wanted["part_rows"] or _default_rows(wanted, shards)
        now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        begun = f"{now} on {socket.gethostname()} by process {os.getpid()}"
        new = {**wanted, "seed": seed, "part_rows": rows, **law.decided, "begun": begun}
        if store.begin(parts.JOB, parts.job_file(new, law.schema)):
            return new
        job = parts.read_job(store)  # another process was a moment earlier
        assert job is not None
    for key, value in wanted.items():
        if job.get(key) != value and not (value is None and key in ("seed", "part_rows")):
            raise NelsonError(
                f"{store} holds another job, begun {job['begun']}: its {key} is "
                f"{shortened(repr(job.get(key)))}, not {shortened(repr(value))}; use another folder"
            )
    return job


def _shard(text: str | None) -> tuple[int, int]:
    """(3, 100) of "3/100"."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text or "1/1").strip())
    k, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= k <= of:
        raise FormulaError(f"shard {text!r}", expected='"1/N" to "N/N", such as "3/100"')
    return k, of


def _default_rows(job: Mapping[str, Any], shards: int) -> int:
    """Samples per part: a multiple of 64, at least one part for each shard if n allows it."""
    width = 8 * len(job["names"]) if job["layout"] == "rows" else -(-len(job["variables"]) // 8)
    fits = _PART_BYTES // 64 // max(1, width)
    even = -(-job["n"] // 64 // max(_MIN_PARTS, shards))
    least = 1 if shards > 1 else _MIN_ROWS // 64
    return 64 * min(max(least, even), max(1, fits))
