"""What a job is, in plain values: equal for equal jobs, so that a folder can tell whose it is."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nelson._version import __version__
from nelson.cluster import parts
from nelson.cluster.part_files import Store
from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows
from nelson.formula.checks import count as whole_number
from nelson.sampling.shards import MOST

#: Bytes of a part, if the caller does not say how many samples a shard has; and the fewest parts.
_BYTES, _PARTS = 128 << 20, 16
#: Samples of the smallest shard that is worth a task.
_LEAST = 1 << 16
#: What two jobs must have in common for one to go on where the other was stopped.
_SAME = (
    *("formula", "theta", "given", "variables", "names", "n", "seed", "asked"),
    *("max_rounds", "check", "shard", "nelson"),
)


def described(
    formula: Formula,
    theta: Any,
    n: int,
    method: str,
    sweeps: int | None,
    given: Any,
    project: Iterable[int] | None,
    max_rounds: int,
    check: bool,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """What was asked for, in plain values: equal for equal jobs."""
    n = whole_number(n, "n")
    if n > MOST:
        raise FormulaError(f"n = {n:,}", expected=f"at most 2^46 = {MOST:,}")
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError("one theta row a context", expected="one theta vector")
    chosen = checked_projection(project, formula.n_vars)
    variables = list(range(1, formula.n_vars + 1)) if chosen is None else list(chosen)
    if names is not None:
        if len(names) != formula.n_vars:
            raise FormulaError(f"{len(names)} names", expected=f"{formula.n_vars}, one a variable")
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
    """Of its clauses and variables."""
    text = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} {formula.n_clauses}\n".encode())
    text.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    text.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    return text.hexdigest()[:32]


def seed_of(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise FormulaError(f"seed = {seed!r}", expected="an integer")
    return int(seed)


def shard_of(shard: int | None, job: Mapping[str, Any]) -> int:
    if shard is not None:
        if whole_number(shard, "shard") <= 0 or shard % 64:
            raise FormulaError(f"shard = {shard}", expected="a positive multiple of 64")
        return int(shard)
    fits = _BYTES // max(1, -(-len(job["variables"]) // 8))
    even = -(-job["n"] // _PARTS)
    return 64 * -(-min(max(_LEAST, even), max(64, fits)) // 64)


def known_of(
    where: Store, files: Mapping[str, int], job: dict[str, Any], seeded: bool, sized: bool
) -> dict[str, Any] | None:
    """The job that the folder holds, which must be this one; None if there is none."""
    if parts.JOB not in files:
        if foreign := [name for name in files if name.startswith("part-")]:
            raise NelsonError(
                f"{where}: holds {foreign[0]}, but no {parts.JOB}; use another folder"
            )
        return None
    known = parts.read_json(where, parts.JOB)
    free = {"seed": seeded, "shard": sized}
    for key in _SAME:
        if free.get(key, True) and known.get(key) != job[key]:
            raise NelsonError(
                f"{where} holds another job: its {_spoken(key)} {_short(known.get(key))}, not "
                f"{_short(job[key])}; use another folder"
            )
    return known


def _spoken(key: str) -> str:
    names = {
        "n": "number of samples is",
        "asked": "method and sweeps are",
        "nelson": "version of nelson is",
        "variables": "variables are",
        "names": "names are",
        "shard": "shards hold",
        "given": "evidence is",
    }
    return names.get(key, f"{key} is")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
