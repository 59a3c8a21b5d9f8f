"""Sentences below the tables: in how many cells a claim is true, and where it fails.

    `lovasz` draws only valid samples: true in 1 of 2 cells; NOT in n = 20: 99.9%.

All are computed from the rows. In a cell that our sampler did not finish, the claim fails. Validity
is a claim about samples: cells without any, since the time was up or the memory, are named apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nelson_paper.experiments.base import OK, OUT_OF_MEMORY, TIMED_OUT, Rows
from nelson_paper.experiments.samplers import CLAIMED, is_peer, order
from nelson_paper.experiments.show import good, mean, percent, pick, sizes, text

#: Standard deviations that count as noise. An exact sampler exceeds them in 1 of 700 cells.
SIGMAS = 3.0
#: Failures that are listed; further ones are only counted.
_SHOWN = 12
#: Relative difference below which two values tie.
_TIE = 0.005


def sentence(claim: str, cells: Mapping[str, str]) -> str:
    """The claim, counted. cells: name of a cell -> why the claim fails there, or "" if it holds."""
    if not cells:
        return ""
    broken = [f"{name}: {why}" for name, why in cells.items() if why]
    count = f"{claim}: true in {len(cells) - len(broken)} of {len(cells)} cells"
    if not broken:
        return count + "."
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    return f"{count}; NOT in {'; '.join(broken[:_SHOWN])}{more}".removesuffix(".") + "."


@dataclass(frozen=True)
class Claim:
    """A claim about a sampler, judged for each size.

    text: with {} for the name of the sampler. judge(name, rows of one size) -> why the claim fails,
    or "". key: the field of the rows that is the size. of: the field that is judged, if the claim
    is about rows that have it only; cells that were cut off before they had it do not count.
    """

    text: str
    judge: Callable[[str, Rows], str]
    key: str = "n"
    of: str | None = None

    def cells(self, rows: Rows, name: str) -> dict[str, str]:
        """Name of a cell -> why the claim fails there, or "" if it holds."""
        out = {}
        for size in sizes(rows, self.key):
            here = pick(rows, **{self.key: size})
            own = pick(here, sampler=name)
            if self.of is not None:
                cut = [row for row in own if self._cut_off(row)]
                here = [row for row in here if row not in cut]
                own = pick(here, sampler=name)
            if own:
                late = len(good(own)) < len(own)
                why = text(own, lambda _: "ok") if late else self.judge(name, here)
                out[f"{self.key} = {size}"] = why
        return out

    def _cut_off(self, row: Mapping[str, Any]) -> bool:
        """Does the row lack the field because the time was up, or the memory?"""
        without = row["status"] == OK and row.get(self.of or "") is None
        return without or row["status"] in (TIMED_OUT, OUT_OF_MEMORY)

    def not_counted(self, rows: Rows, name: str) -> list[str]:
        """The cells that were cut off, and why: ["n = 500: T.O."]."""
        out: dict[str, None] = {}
        for row in pick(rows, sampler=name) if self.of is not None else ():
            if self._cut_off(row):
                why = "no sample in time" if row["status"] == OK else row["status"]
                out[f"{self.key} = {row[self.key]}: {why}"] = None
        return list(out)

    def sentences(self, rows: Rows, names: Iterable[str] = CLAIMED) -> str:
        """A sentence for each sampler that has rows."""
        lines = []
        for name in names:
            lines.append(sentence(self.text.format(f"`{name}`"), self.cells(rows, name)))
            if cut := self.not_counted(rows, name):
                lines.append(f"`{name}` has no samples, which does not count, in {'; '.join(cut)}.")
        return " ".join(line for line in lines if line)


def _judge_valid(name: str, here: Rows) -> str:
    worst = min(row["validity"] for row in good(pick(here, sampler=name)))
    return "" if worst == 1.0 else percent(worst)


VALID = Claim("{} draws only valid samples", _judge_valid, of="validity")


def valid(rows: Rows) -> str:
    """Claim: every sample is valid."""
    return VALID.sentences(rows)


class Margin(NamedTuple):
    """The time of the fastest peer, divided by ours."""

    ratio: float
    low: float  # the peer's fastest repetition over our slowest one
    high: float  # the peer's slowest repetition over our fastest one
    peer: str

    def __str__(self) -> str:
        told = f"{self.ratio:.2g}"
        if self.low < self.ratio < self.high:
            told += f" ({self.low:.2g} to {self.high:.2g})"
        return f"{told}, {self.peer}"


def margin(name: str, here: Rows, without_start: bool = False) -> Margin | None:
    """How many times as fast as the fastest peer of one size; None if there is nothing to compare.

    without_start: the time that a peer needs to start a process is not counted. A peer whose time
    is all start-up is not compared then.
    """
    own = good(pick(here, sampler=name))
    ours = mean(own, "seconds")
    margins = []
    for peer in {row["sampler"] for row in here if is_peer(row["sampler"])} - {name}:
        theirs = good(pick(here, sampler=peer))
        start = (mean(theirs, "overhead") or 0.0) if without_start else 0.0
        seconds = mean(theirs, "seconds")
        if ours is None or seconds is None or seconds <= start:
            continue
        fastest, slowest = mean(theirs, "fastest"), mean(theirs, "slowest")
        our_fastest, our_slowest = mean(own, "fastest"), mean(own, "slowest")
        low = max((fastest or seconds) - start, 0.0) / (our_slowest or ours)
        high = ((slowest or seconds) - start) / (our_fastest or ours)
        margins.append(Margin((seconds - start) / ours, low, high, peer))
    return min(margins) if margins else None


def margins(rows: Rows, name: str, without_start: bool = False) -> dict[str, Margin | str]:
    """Name of a cell -> the margin there, or why there is none."""
    out: dict[str, Margin | str] = {}
    for size in sizes(rows):
        here = pick(rows, n=size)
        own = pick(here, sampler=name)
        if own and len(good(own)) < len(own):
            out[f"n = {size}"] = text(own, lambda _: "ok")
        elif own and (seen := margin(name, here, without_start)) is not None:
            out[f"n = {size}"] = seen
    return out


def fastest(rows: Rows) -> str:
    """How many times as fast as the fastest peer, with and without the start of processes."""
    lines = []
    for name in CLAIMED:
        plain, fair = margins(rows, name), margins(rows, name, without_start=True)
        if plain:
            told = "; ".join(f"{cell}: {seen}" for cell, seen in plain.items())
            lines.append(f"Time of the fastest peer over that of `{name}`: {told}.")
        changed = [f"{cell}: {seen}" for cell, seen in fair.items() if seen != plain[cell]]
        if changed:
            lines.append(f"Without the start of the peer's process: {'; '.join(changed)}.")
    if lines:
        lines.append(
            "In brackets: the same for the fastest and the slowest repetitions; an interval that "
            "contains 1 decides nothing."
        )
    return " ".join(line for line in (*lines, _unresolved(rows)) if line)


def _unresolved(rows: Rows) -> str:
    """Peers whose measured time is no longer than the start of their process."""
    cells = [
        f"{row['sampler']} at n = {row['n']}"
        for row in good(rows)
        if is_peer(row["sampler"])
        and (row.get("overhead") or 0.0) >= (row.get("seconds") or math.inf)
    ]
    told = ", ".join(dict.fromkeys(cells))
    return (
        f"Without the start of its process the time is too short to measure, so it is not "
        f"compared: {told}."
        if told
        else ""
    )


def _judge_floor(name: str, here: Rows) -> str:
    own = good(pick(here, sampler=name))
    k = len(own)
    error = sum(row["error"] for row in own) / k
    floor = sum(row["floor"] for row in own) / k
    spread = math.sqrt(sum(row["floor_sd"] ** 2 for row in own)) / k
    if error <= floor + SIGMAS * spread:
        return ""
    return f"{error:.3g}, floor {floor:.3g} ± {spread:.2g}"


#: The mean error over the formulas is at most SIGMAS standard deviations above the mean floor. The
#: rows have the fields error, floor and floor_sd.
AT_FLOOR = Claim(
    f"{{}} is at the Monte Carlo floor (within {SIGMAS:g} standard deviations)", _judge_floor
)


def at_floor(rows: Rows, key: str = "n", names: Sequence[str] = CLAIMED) -> str:
    """Claim: the error is no larger than that of as many exact draws, apart from noise."""
    return replace(AT_FLOOR, key=key).sentences(rows, names)


def no_better(field: str, bar: str) -> Claim:
    """Claim: no other sampler is better by more than the error bar. Larger values are better.

    Two samplers are compared on the formulas that both finished. Error bars of several formulas
    are combined as independent.
    """

    def judge(name: str, here: Rows) -> str:
        own = _by_formula(good(pick(here, sampler=name)), field)
        worse = []
        for other in {row["sampler"] for row in here} - {name}:
            theirs = _by_formula(good(pick(here, sampler=other)), field)
            both = own.keys() & theirs.keys()
            if not both:
                continue
            gap = sum(theirs[k][field] - own[k][field] for k in both) / len(both)
            width = math.sqrt(sum(own[k][bar] ** 2 for k in both)) / len(both)
            if gap > width:
                worse.append((gap, other, width))
        if not own:
            return "no value"
        if not worse:
            return ""
        gap, other, width = max(worse)
        return f"{other} is {gap:.3g} better, error bar {width:.2g}"

    return Claim("No other sampler is better than {} by more than the error bar", judge)


def best(rows: Rows, field: str, bar: str) -> str:
    """The claim `no_better`, and which samplers tie with ours."""
    told = no_better(field, bar).sentences(rows)
    return f"{told} {_within(rows, field, bar)}".strip()


def _within(rows: Rows, field: str, bar: str) -> str:
    """A sentence on the samplers whose value is within our error bar: they tie with us."""
    lines = []
    for name in CLAIMED:
        parts = []
        for size in sizes(rows):
            here = good(pick(rows, n=size))
            own = _by_formula(pick(here, sampler=name), field)
            equal = []
            for other in {row["sampler"] for row in here} - {name}:
                theirs = _by_formula(pick(here, sampler=other), field)
                both = own.keys() & theirs.keys()
                gap = sum(theirs[k][field] - own[k][field] for k in both)
                if both and abs(gap) <= math.sqrt(sum(own[k][bar] ** 2 for k in both)):
                    equal.append(other)
            if equal:
                parts.append(f"{_names(equal)} at n = {size}")
        if parts:
            lines.append(f"Within the error bar of `{name}`, so a tie: {'; '.join(parts)}.")
    return " ".join(lines)


def ties(rows: Rows, field: str, noise: float = 0.0) -> str:
    """Which samplers tie with ours, and which are better, by size. Larger values are better.

    A tie: the mean values differ by at most 0.5% of the larger one, or by at most `noise`, the
    standard deviation of the value on one formula, divided by the root of their number.
    """
    lines = []
    for name in CLAIMED:
        parts = []
        for size in sizes(rows):
            here = good(pick(rows, n=size))
            own = mean(pick(here, sampler=name), field)
            if own is None:
                continue
            width = noise / math.sqrt(len(pick(here, sampler=name)))
            others = {row["sampler"] for row in here} - {name}
            values = {k: mean(pick(here, sampler=k), field) for k in others}
            known = {k: v for k, v in values.items() if v is not None}
            equal = [
                k
                for k, v in known.items()
                if abs(v - own) <= max(width, _TIE * max(abs(v), abs(own)))
            ]
            better = [k for k, v in known.items() if v > own and k not in equal]
            told = [f"ties with {_names(equal)}"] * bool(equal)
            told += [f"loses to {_names(better)}"] * bool(better)
            parts.append(f"n = {size}: {' and '.join(told) or 'is the best'}")
        if parts:
            lines.append(f"`{name}`, {'; '.join(parts)}.")
    return " ".join(lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in order(names))


def _by_formula(rows: Rows, field: str) -> dict[Any, Mapping[str, Any]]:
    return {row.get("seed"): row for row in rows if row.get(field) is not None}
