"""The first table of a report: what we claim, and what the cells of this run say to it.

Everything is counted from the rows; nothing is typed. A claim that fails names its first cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nelson_paper.experiments import published, show, verdict
from nelson_paper.experiments.base import Row, Rows, Table
from nelson_paper.experiments.samplers import CLAIMED, label
from nelson_paper.experiments.verdict import Claim, Margin

#: Failing cells that are named; further ones are only counted.
_NAMED = 3

#: A table or figure, a claim, and the rows on which it is judged.
Judged = tuple[str, Claim, Rows]


def table(rows: Mapping[str, Sequence[Row]]) -> Table | None:
    """rows: by experiment. None if no claim can be judged."""
    body = []
    for text, parts in _claims(rows):
        for name in CLAIMED:
            told = _in_words(
                [
                    (f"{where}, {cell}", why)
                    for where, claim, here in parts
                    for cell, why in claim.cells(here, name).items()
                ],
                sum(len(claim.not_counted(here, name)) for _, claim, here in parts),
            )
            if told:
                body.append([text, label(name), told])
    for text, groups in _times(rows):
        for name in CLAIMED:
            seen = [
                (f"{where}, {cell}", found)
                for where, here in groups
                for cell, found in verdict.margins(here, name).items()
            ]
            if seen:
                body.append([text, label(name), _margins_in_words(seen)])
    if not body:
        return None
    note = (
        "Peers are the samplers that the paper compares with. A ratio is the time of the fastest "
        "peer over ours; the interval holds the same for the fastest and the slowest repetitions."
    )
    lead = "What we claim of our samplers, and what this run says to it."
    columns = ["claim", "sampler", "in this run"]
    return Table("Our claims in this run", columns, body, note, lead=lead)


def _claims(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, list[Judged]]]:
    """(claim in words, where and on which rows it is judged)."""

    def of(experiment: str, **wanted: str | int) -> Rows:
        return show.pick(rows.get(experiment, ()), **wanted)

    learned, figures = _learned(rows), _figures(rows)
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
    yield (
        "no other sampler has a better held-out likelihood (a tie counts), Table 2",
        judged(verdict.no_better("held_out", "held_out_bar"), second),
    )


def _learned(rows: Mapping[str, Sequence[Row]]) -> dict[str, Rows]:
    third = show.pick(rows.get("table3", ()), part="learn")
    return {
        "Table 1": show.pick(rows.get("table1", ()), part="learn"),
        "Table 3": show.pick(third, data="glucose4"),
        "Table 3, planted": show.pick(third, data="planted"),
    }


def _figures(rows: Mapping[str, Sequence[Row]]) -> dict[str, Rows]:
    """Samples of 1000 and of 100 are different cells of the same size."""
    weighted = rows.get("weighted", ())
    return {"Figure 1": rows.get("uniform", ())} | {
        f"Figure 2, {count} samples": show.pick(weighted, count=count)
        for count in show.sizes(weighted, "count")
    }


def _times(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, list[tuple[str, Rows]]]]:
    yield "faster than every peer, Tables 1(a) and 3(a)", list(_learned(rows).items())
    yield "faster than every peer, Figures 1 and 2", list(_figures(rows).items())


def _in_words(cells: Sequence[tuple[str, str]], not_counted: int = 0) -> str:
    """ "in 3 of 4 cells; not in Table 1, n = 50: 99.9%"; "" without cells.

    not_counted: cells that were cut off, where the claim cannot be judged.
    """
    cut = f"{not_counted} cut off before a sample" if not_counted else ""
    if not cells:
        return cut
    also = f" ({cut})" if cut else ""
    broken = [f"{name}: {why}" for name, why in cells if why]
    if not broken:
        all_cells = f"yes, in all {len(cells)} cells" if len(cells) > 1 else "yes, in the only cell"
        return all_cells + also
    more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    told = f"not in {'; '.join(broken[:_NAMED])}{more}"
    return f"in {len(cells) - len(broken)} of {len(cells)} cells{also}; {told}"


def _margins_in_words(cells: Sequence[tuple[str, Margin | str]]) -> str:
    """ "between 1.2 (0.9 to 1.5) (gibbs; Figure 1, n = 10) and 40 times as fast"."""
    known = [(seen, where) for where, seen in cells if not isinstance(seen, str)]
    late = "; ".join(f"{where}: {seen}" for where, seen in cells if isinstance(seen, str))
    if not known:
        return late
    least, where = min(known)
    most, _ = max(known)
    told = f"least ratio {least} in {where}; largest {most.ratio:.2g}; {len(known)} cells"
    return f"{told}; {late}" if late else told
