"""The first table of a report: what we claim, and in how many cells of this run it is true.

Everything is counted from the rows; nothing is typed. A claim that fails names its first cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nelson_paper.experiments import published, show, verdict
from nelson_paper.experiments.base import Row, Rows, Table
from nelson_paper.experiments.samplers import CLAIMED
from nelson_paper.experiments.verdict import Claim

#: Failing cells that are named; further ones are only counted.
_NAMED = 3

#: A table or figure, a claim, and the rows on which it is judged.
Judged = tuple[str, Claim, Rows]


def table(rows: Mapping[str, Sequence[Row]]) -> Table | None:
    """rows: by experiment. None if no claim can be judged."""
    body = []
    for text, parts in _claims(rows):
        told = [
            _count(
                [
                    (f"{where}, {cell}", why)
                    for where, claim, here in parts
                    for cell, why in claim.cells(here, name).items()
                ],
                sum(len(claim.not_counted(here, name)) for _, claim, here in parts),
            )
            for name in CLAIMED
        ]
        if any(told):
            body.append([text, *told])
    if not body:
        return None
    note = (
        "Cells in which a claim is true, of all cells in which it can be judged. Peers are the "
        "samplers that the paper compares with. `lovasz` is Algorithm 1 of the paper; `lovasz + "
        "sweeps` adds as many sweeps as a pilot run asks for; its guarantee is diagnosed."
    )
    return Table("In how many cells our claims are true", ["claim", *CLAIMED], body, note)


def _claims(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, list[Judged]]]:
    """(claim in words, where and on which rows it is judged)."""

    def of(experiment: str, **wanted: str | int) -> Rows:
        return show.pick(rows.get(experiment, ()), **wanted)

    learned = {
        "Table 1": of("table1", part="learn"),
        "Table 3": of("table3", part="learn", data="glucose4"),
        "Table 3, planted": of("table3", part="learn", data="planted"),
    }
    figures = {"Figure 1": of("uniform"), "Figure 2": of("weighted")}
    second = {
        "Table 2": of("table2", data="glucose4"),
        "Table 2, planted": of("table2", data="planted"),
    }
    gradient = {
        f"{table}, m = {m}": of(name, part="gradient", m=m)
        for name, table in (("table1", "Table 1(c)"), ("table3", "Table 3(c)"))
        for m in published.GRADIENT_SAMPLES
    }

    def judged(claim: Claim, *groups: Mapping[str, Rows]) -> list[Judged]:
        return [(where, claim, here) for group in groups for where, here in group.items()]

    yield "every sample is valid", judged(verdict.VALID, learned, figures, second)
    yield (
        "the error of the gradient is at the Monte Carlo floor, Tables 1(c) and 3(c)",
        judged(verdict.AT_FLOOR, gradient),
    )
    yield (
        "the error of the marginals is at the Monte Carlo floor, 2 million draws",
        judged(replace(verdict.AT_FLOOR, key="ratio"), {"bias": of("bias")}),
    )
    yield "faster than every peer, Tables 1(a) and 3(a)", judged(verdict.FASTEST, learned)
    yield "faster than every peer, Figures 1 and 2", judged(verdict.FASTEST, figures)
    yield (
        "no other sampler has a better held-out likelihood (a tie counts), Table 2",
        judged(verdict.no_better("held_out", "held_out_bar"), second),
    )


def _count(cells: Sequence[tuple[str, str]], not_counted: int) -> str:
    """ "3 of 4 cells; not in Table 1, n = 50: gibbs 4 ms, auto 31 ms"; "" without cells.

    not_counted: cells that were cut off, where the claim cannot be judged.
    """
    cut = f"{not_counted} cut off before a sample" if not_counted else ""
    if not cells:
        return cut
    broken = [f"{name}: {why}" for name, why in cells if why]
    told = f"{len(cells) - len(broken)} of {len(cells)} cells{f' ({cut})' if cut else ''}"
    if not broken:
        return told
    more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    return f"{told}; not in {'; '.join(broken[:_NAMED])}{more}"
