"""The first table of a report: what we claim, and in how many cells of this run it is true.

Everything is counted from the rows; nothing is typed. A claim that fails names its first cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nelson.experiments import show, verdict
from nelson.experiments.base import Row, Rows, Table
from nelson.experiments.samplers import CLAIMED
from nelson.experiments.verdict import Claim

#: Failing cells that are named; further ones are only counted.
_NAMED = 3


def table(rows: Mapping[str, Sequence[Row]]) -> Table | None:
    """rows: by experiment. None if no claim can be judged."""
    body = []
    for text, parts in _claims(rows):
        told = [
            _count([c for claim, here in parts for c in claim.cells(here, n).items()])
            for n in CLAIMED
        ]
        if any(told):
            body.append([text, *told])
    if not body:
        return None
    note = (
        "Cells in which a claim is true, of all cells in which it can be judged. Peers are the "
        "samplers that the paper compares with. `lovasz` is Algorithm 1 of the paper; `lovasz + "
        "sweeps` adds as many sweeps as a pilot run asks for. Its guarantee is asymptotic. It "
        "needs no circuit, where `auto` builds one to draw exactly."
    )
    return Table("What we claim", ["claim", *CLAIMED], body, note)


def _claims(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, list[tuple[Claim, Rows]]]]:
    """(claim in words, the claim with the rows that it is judged on)."""
    learned = [
        show.pick(rows.get("table1", ()), part="learn"),
        *(
            show.pick(rows.get("table3", ()), part="learn", data=data)
            for data in ("glucose4", "planted")
        ),
    ]
    figures = [rows.get("uniform", ()), rows.get("weighted", ())]
    second = [show.pick(rows.get("table2", ()), data=data) for data in ("glucose4", "planted")]
    gradient = [
        show.pick(rows.get(name, ()), part="gradient", m=m)
        for name in ("table1", "table3")
        for m in (4000, 2000)
    ]
    held_out = verdict.no_better("held_out", "held_out_bar")
    every = [*learned, *figures, *second]
    yield "every sample is valid", [(verdict.VALID, here) for here in every]
    yield (
        "the error of the gradient is at the Monte Carlo floor, Tables 1(c) and 3(c)",
        [(verdict.AT_FLOOR, here) for here in gradient],
    )
    yield (
        "the error of the marginals is at the Monte Carlo floor, 2 million draws",
        [(replace(verdict.AT_FLOOR, key="ratio"), rows.get("bias", ()))],
    )
    yield (
        "faster than every peer, Tables 1(a) and 3(a)",
        [(verdict.FASTEST, here) for here in learned],
    )
    yield "faster than every peer, Figures 1 and 2", [(verdict.FASTEST, here) for here in figures]
    yield (
        "no other sampler has a better held-out likelihood (a tie counts), Table 2",
        [(held_out, here) for here in second],
    )


def _count(cells: Sequence[tuple[str, str]]) -> str:
    """ "3 of 4 cells; not at n = 50: gibbs 4 ms, auto 31 ms", or "" if there are no cells."""
    if not cells:
        return ""
    broken = [f"{name}: {why}" for name, why in cells if why]
    told = f"{len(cells) - len(broken)} of {len(cells)} cells"
    if not broken:
        return told
    more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    return f"{told}; not at {'; '.join(broken[:_NAMED])}{more}"
