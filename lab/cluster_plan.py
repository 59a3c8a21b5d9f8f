"""Plan large jobs from measured figures: how many machines, hours and bytes they take.

    python -m lab cluster         measures, and writes cluster-figures.json
    python -m lab page cluster    writes the plan into docs/cluster.md

    core seconds = N / rate + formulas * (decide + job)
    hours        = max(core seconds / cores, bytes / write speed) / machines / 3600
    bytes        = N * bytes per sample

N is the number of samples. `rate` is samples per CPU second of one process with one thread, which
writes them too; `decide` is the time in which `auto` chooses a method, `job` the time of a job of
64 samples.

The machines of the plan are assumed, not measured. Their cores are assumed to be as fast as the
measured ones, and k machines to be k times as fast as one, because shards share nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Machine(NamedTuple):
    """The assumed machine of a plan."""

    cores: int = 64
    write_mb_s: float = 1000.0  # MB/s to the storage, all cores together


class Job(NamedTuple):
    name: str
    samples: float
    formulas: int = 1


JOBS = (
    Job("10^12 samples of one formula", 1e12),
    Job("10,000 formulas, 10^6 samples each", 1e10, 10_000),
    Job("10,000 formulas, 10^8 samples each", 1e12, 10_000),
)
MACHINES = (1, 10, 100)


def hours(
    figures: Mapping[str, Any], job: Job, machines: int, machine: Machine, rate: str = "rate"
) -> tuple[float, str]:
    """Hours that the job takes, and which of "cores" and "writing" limits it."""
    work = job.samples / figures[rate] + job.formulas * (figures["decide"] + figures["job"])
    drawing = work / machine.cores / machines / 3600
    writing = job.samples * figures["bytes"] / (machine.write_mb_s * 1e6) / machines / 3600
    return max((drawing, "cores"), (writing, "writing"))


def markdown(figures: Mapping[str, Any], machine: Machine = Machine()) -> str:  # noqa: B008
    n, variables = figures["n"], figures["variables"]
    told = [
        f"{n:,} samples of {variables} variables, drawn five times on {figures['cores']} cores "
        f"(nelson {figures['nelson']}, `{figures['method']}`, {figures['guarantee']}); the bytes "
        "of all parts are equal. Memory is that of the largest process:"
    ]
    if figures["quick"]:
        told[0] = "From a run with `--quick`. " + told[0]
    table = ["| who draws | seconds | CPU seconds | MB | GB | parts |", "|---|---|---|---|---|---|"]
    for engine in figures["engines"]:
        table.append(
            f"| {engine['engine']} | {engine['seconds']:.1f} | {engine['cpu']:.0f} | "
            f"{engine['mb']:.0f} | {engine['bytes'] / 1e9:.2f} | {engine['parts']} |"
        )
    told.append("\n".join(table))
    told.append(
        f"So a core draws and writes {figures['rate']:,.0f} such samples per CPU second, "
        f"{figures['bytes']:.2f} bytes each; `auto` chooses a method for 1,000 variables in "
        f"{figures['decide']:.2f} s, a job of 64 samples takes {figures['job']:.2f} s, and this "
        f"disk writes {figures['disk_mb_s']:,.0f} MB/s. Assumed machine: {machine.cores} such "
        f"cores, {machine.write_mb_s:,.0f} MB/s to the storage. Hours, and in brackets what limits "
        "them, the cores or writing:"
    )
    table = ["| job | bytes | " + " | ".join(_machines(m) for m in MACHINES) + " |"]
    table.append("|---" * (2 + len(MACHINES)) + "|")
    for job in JOBS:
        cells = [job.name, _bytes(job.samples * figures["bytes"])]
        for machines in MACHINES:
            time, limit = hours(figures, job, machines, machine)
            cells.append(f"{time:,.3g} ({limit})")
        table.append("| " + " | ".join(cells) + " |")
    told.append("\n".join(table))
    told.append(_first_to_break(figures, machine))
    return "\n\n".join(told) + "\n"


def _first_to_break(figures: Mapping[str, Any], machine: Machine) -> str:
    """The limits of 10^12 samples of 1,000 variables, from the one met first."""
    size, n = 1e12 * figures["wide_bytes"], 1e12
    files = n / figures["wide_rows"]
    drawing, writing = n / figures["wide_rate"] / machine.cores, size / machine.write_mb_s / 1e6
    limits = [
        (writing, f"**The storage.** Writing takes {writing / 3600:.3g} hours of one machine, "
         f"{writing / 3600 / 100:.2g} of a hundred, if the storage takes "
         f"{machine.write_mb_s / 10:,.0f} GB/s."),
        (drawing, f"**The cores.** Drawing takes {drawing / 3600:.3g} hours of one machine, at "
         f"{figures['wide_rate']:,.0f} samples per CPU second."),
    ]  # fmt: skip
    told = [text for _, text in sorted(limits, reverse=True)] + [
        f"**Checking on a rerun.** It reads the {_bytes(size)} that are there, which takes as long "
        "as writing. Use `--no-verify` and let `nelson read --verify` run apart.",
        f"**Listing.** An object store gives 1,000 names a request, so one listing is "
        f"{files / 1000:,.0f} requests; with `--shard K/1000` each share asks for the whole "
        f"listing once, {files:,.0f} requests together. Fewer and larger shares, or larger parts "
        "(`--part-rows`), make it less.",
        f"Not the bookkeeping: {files:,.0f} parts cost {files * figures['wide_part']:.1f} CPU "
        "seconds and one listing (a test counts the accesses).",
    ]
    lines = [f"{number}. {text}" for number, text in enumerate(told, 1)]
    head = (
        f"A process of `xargs` costs {figures['start']:.2g} CPU seconds to start: a share should "
        f"draw for a minute at least. What breaks first, for 10^12 samples of 1,000 variables "
        f"({_bytes(size)}, {files:,.0f} parts):"
    )
    return head + "\n\n" + "\n".join(lines)


def _machines(count: int) -> str:
    return f"{count} machine{'s' * (count != 1)}"


def _bytes(size: float) -> str:
    for unit in ("GB", "TB", "PB"):
        size /= 1e9 if unit == "GB" else 1e3
        if size < 1000:
            break
    return f"{size:,.3g} {unit}"
