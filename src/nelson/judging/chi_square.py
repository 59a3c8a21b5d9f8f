"""Pearson's chi-square test against the probabilities of all structures.

    X^2 = sum over cells of (o - e)^2 / e,     e = m P_theta(x | C)

A cell is one structure. Structures that expect fewer than 5 samples are merged, least likely first,
until a cell expects 5. Under the claim X^2 is close to chi-square with (cells - 1) degrees of
freedom. With enough samples this test rejects every sampler of another law; no other test here
does. A fit closer than chance allows is not accepted: it means that samples are not independent.

With a tolerance (`Band`) e is the number in the band that is nearest to o. This gives the smallest
X^2 of all tolerated laws, so the p-value can only be too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.exact.enumerated import probabilities
from nelson.judging.tails import Band, chi_square_tail
from nelson.judging.verdict import Counts, Finding, probability

#: Samples that a cell must expect.
_MIN_EXPECTED = 5.0


@dataclass(frozen=True)
class Listed:
    """All structures, or their distinct projections: (s, columns) bool, sorted; and their law."""

    states: np.ndarray
    probability: np.ndarray


def listed(states: np.ndarray, theta: np.ndarray, columns: np.ndarray) -> Listed:
    """The law of the given columns; states (s, n) are all structures, theta (n,) finite."""
    weight = probabilities(states, theta)
    key = _keys(states[:, columns])
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.concatenate([[True], key[order][1:] != key[order][:-1]]))
    return Listed(states[order[first]][:, columns], np.add.reduceat(weight[order], first))


def resolved(law: Listed, m: int) -> bool:
    """Are m samples enough to tell most structures apart?

    At least half of them must fall into cells of one structure: merging hides the law.
    """
    return bool(law.probability[law.probability * m >= _MIN_EXPECTED].sum() >= 0.5)


def chi_square(x: np.ndarray, law: Listed, band: Band, delta: float) -> Finding:
    """x: (m, columns) bool, all of them valid."""
    m, s = len(x), len(law.states)
    observed = np.bincount(np.searchsorted(_keys(law.states), _keys(x)), minlength=s)
    expected = law.probability * m
    evidence: dict[str, Any] = {"samples": m, "support": s, "exact": True}
    if s == 1:
        return Finding(True, "there is one valid structure, and every sample is it", evidence)
    cell = _cells(expected)
    count = int(cell.max()) + 1
    if count < 2:
        return Finding(None, f"{m} samples are too few for {s:,} structures", evidence)
    o = np.bincount(cell, weights=observed, minlength=count)
    e = np.bincount(cell, weights=expected, minlength=count)
    near = np.clip(o, band.low * e, band.high * e)
    statistic = float((((o - near) ** 2) / np.maximum(near, 1e-300)).sum())
    p = chi_square_tail(statistic, count - 1)
    worst = int(np.argmax(np.abs(o - e) / np.sqrt(e)))
    gap = np.abs(observed - expected).sum() / m
    noise = np.sqrt(2 / np.pi * law.probability * (1 - law.probability) / m).sum()
    evidence |= {
        "cells": count,
        "statistic": statistic,
        "degrees_of_freedom": count - 1,
        "p_value": p,
        "level": delta,
        "L1_distance": float(gap),
        "L1_noise": float(noise),
        "worst": _named(law, cell, worst, o[worst], e[worst]),
    }
    reason = f"X^2 = {statistic:.4g} on {count - 1:,} degrees of freedom: {probability(p, delta)}"
    counts = Counts(o, e, m, "structures" if count == s else "cells of structures")
    # One right sampler in a million fits as well. Samples that were drawn without replacement, or
    # enumerated in turn, do; the test does not apply to them.
    if band.exact and 1 - p < 1e-6:
        reason += "; closer than chance allows: these are not independent"
        return Finding(None, reason, evidence, counts)
    return Finding(p >= delta, reason, evidence, counts)


def _cells(expected: np.ndarray) -> np.ndarray:
    """The cell of each structure; structures that expect too few samples share cells."""
    cell = np.full(len(expected), -1)
    alone = expected >= _MIN_EXPECTED
    cell[alone] = np.arange(alone.sum())
    rare = np.flatnonzero(~alone)
    rare = rare[np.argsort(expected[rare], kind="stable")]
    number, held = int(alone.sum()), 0.0
    for i in rare:
        cell[i] = number
        held += expected[i]
        if held >= _MIN_EXPECTED:
            number, held = number + 1, 0.0
    if held and number:  # merge a last cell that expects too few with the one before
        cell[cell == number] = number - 1
    return cell


def _named(law: Listed, cell: np.ndarray, worst: int, o: float, e: float) -> str:
    members = np.flatnonzero(cell == worst)
    digits = "".join("01"[int(v)] for v in law.states[members[0]][:64])
    more = "..." if law.states.shape[1] > 64 else ""
    what = f"structure {digits}{more}" if len(members) == 1 else f"{len(members):,} rare structures"
    return f"{what}: {o:,.0f} samples, {e:,.1f} expected"


def _keys(rows: np.ndarray) -> np.ndarray:
    """(m, columns) bool -> (m,) byte strings whose order is the lexicographic order of the rows."""
    octets = np.packbits(rows, axis=1) if rows.shape[1] else np.zeros((len(rows), 1), np.uint8)
    # The last byte must not be 0: NumPy ignores zeros at the end of byte strings.
    octets = np.hstack([octets, np.ones((len(rows), 1), np.uint8)])
    return np.ascontiguousarray(octets).view(f"S{octets.shape[1]}")[:, 0]
