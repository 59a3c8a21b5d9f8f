"""A job in plain values, equal for equal jobs: `job.json` shows which job a folder belongs to."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nelson._version import __version__
from nelson.cluster import parts
from nelson.cluster.job_files import JobFiles
from nelson.errors import FormulaError, NelsonError, shortened
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows
from nelson.formula.checks import count as whole_number
from nelson.sampling.shards import MOST

#: Two jobs that agree in these keys are one job; the values name them in messages.
_COMPARED = {
    "formula": "formula is",
    "theta": "theta is",
    "given": "evidence is",
    "variables": "variables are",
    "names": "names are",
    "n": "number of samples is",
    "seed": "seed is",
    "asked": "method and sweeps are",
    "max_rounds": "max_rounds is",
    "check": "check is",
    "shard": "shards hold",
    "nelson": "version of nelson is",
}


def described(
    formula: Formula,
    theta: Any,
    n: int,
    method: str,
    sweeps: int | None,
    given: Any,
    project: Iterable[int] | str | None,
    max_rounds: int,
    check: bool,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """The request in plain values. Raises FormulaError where an argument is wrong."""
    n = whole_number(n, "n")
    if n > MOST:
        raise FormulaError(f"n = {n:,}", expected=f"at most 2^46 = {MOST:,}")
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError("several theta rows", expected="one theta vector")
    chosen = checked_projection(project, formula.n_vars)
    variables = list(range(1, formula.n_vars + 1)) if chosen is None else list(chosen)
    if names is not None:
        if len(names) != formula.n_vars:
            raise FormulaError(
                f"{len(names)} names", expected=f"{formula.n_vars}, one per variable"
            )
        names = [str(names[variable - 1]) for variable in variables]
    evidence = evidence_literals(given if given is not None else (), formula.n_vars)
    return {
        "format": parts.FORMAT,
        "version": parts.VERSION,
        "nelson": __version__,
        "formula": digest_of(formula),
        "theta": hashlib.sha256(rows.tobytes()).hexdigest()[:32] if rows.any() else None,
        "given": sorted(evidence.tolist(), key=abs),
        "variables": variables,
        "names": names,
        "n": n,
        "asked": [method, sweeps],
        "max_rounds": max_rounds,
        "check": bool(check),
    }


def digest_of(formula: Formula) -> str:
    """A digest of the clauses and the number of variables."""
    digest = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} {formula.n_clauses}\n".encode())
    digest.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    digest.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    return digest.hexdigest()[:32]


def seed_of(seed: int | None) -> int:
    """The seed of a job; a fresh one for None."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise FormulaError(f"seed = {seed!r}", expected="an integer")
    return int(seed)


def shard_of(
    shard: int | None,
    job: Mapping[str, Any],
    part_bytes: int = 128 << 20,
    min_parts: int = 16,
    min_shard: int = 1 << 16,
) -> int:
    """Samples per shard, a multiple of 64: `shard`, or what these limits leave.

    part_bytes  size of a part, at most
    min_parts   parts of a large job, at least, so that workers end at about the same time
    min_shard   a smaller shard is not worth a Ray task
    """
    if shard is not None:
        if whole_number(shard, "shard") <= 0 or shard % 64:
            raise FormulaError(f"shard = {shard}", expected="a positive multiple of 64")
        return int(shard)
    fits = part_bytes // max(1, -(-len(job["variables"]) // 8))
    even = -(-job["n"] // min_parts)
    return 64 * -(-min(max(min_shard, even), max(64, fits)) // 64)


def known_of(
    files: JobFiles, sizes: Mapping[str, int], job: dict[str, Any], seeded: bool, sized: bool
) -> dict[str, Any] | None:
    """The job that the folder holds, or None. Raises NelsonError if it is another job.

    seeded, sized: the caller gave the seed, or the samples per shard; else any value will do.
    """
    if parts.JOB not in sizes:
        if foreign := [name for name in sizes if name.startswith("part-")]:
            raise NelsonError(
                f"{files}: holds {foreign[0]}, but no {parts.JOB}; use another folder"
            )
        return None
    known = parts.read_json(files, parts.JOB)
    given = {"seed": seeded, "shard": sized}
    for key, words in _COMPARED.items():
        if given.get(key, True) and known.get(key) != job[key]:
            raise NelsonError(
                f"{files} holds another job: its {words} {shortened(repr(known.get(key)))}, not "
                f"{shortened(repr(job[key]))}; use another folder"
            )
    return known
