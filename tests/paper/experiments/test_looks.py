"""What a reader sees first: claims that are counted, ties, bold values, the paper's rows, LaTeX."""

from __future__ import annotations

from nelson_paper import experiments
from nelson_paper.experiments import claims, show, table1, verdict
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import latex, markdown, page, tex


def made(sampler: str, **values) -> dict:
    return {"sampler": sampler, "n": 10, "seed": 0, "limit": 3.0, "status": "ok", **values}


def test_ties_and_losses_are_said():
    rows = [made("auto", map=0.9), made("gibbs", map=0.901), made("cmsgen", map=0.8)]
    assert verdict.ties(rows, "map") == "`auto`, n = 10: ties with `gibbs`."
    rows[1]["map"] = 0.95
    assert verdict.ties(rows, "map") == "`auto`, n = 10: loses to `gibbs`."
    rows[1]["map"] = 0.5
    assert verdict.ties(rows, "map") == "`auto`, n = 10: is the best."
    rows[1]["map"] = 0.99
    assert verdict.ties(rows, "map", 0.19) == "`auto`, n = 10: ties with `gibbs`, `cmsgen`."
    bars = [made("auto", value=-50.0, bar=1.0), made("gibbs", value=-50.5, bar=1.0)]
    assert "Within the error bar of `auto`, so a tie: `gibbs` at n = 10." in verdict.best(
        bars, "value", "bar"
    )
    bars[1]["value"] = -53.0
    assert "a tie" not in verdict.best(bars, "value", "bar")


def test_claims_are_counted_from_the_rows():
    fast, slow = ({"part": "learn", "validity": 1.0, "seconds": s} for s in (0.001, 0.002))
    first = [made("auto", **fast), made("gibbs", **slow), made("lovasz", **slow)]
    second = [made("auto", data="planted", held_out=-5.0, held_out_bar=0.1, validity=0.9)]
    table = claims.table({"table1": first, "table2": second})
    told = {(row[0].partition(",")[0], row[1]): row[2] for row in table.rows}
    valid, paper = "every sample is valid", "lovasz (the paper's NELSON)"
    assert told[valid, "auto"] == "in 1 of 2 cells; not in Table 2, planted, n = 10: 90%"
    assert told[valid, paper] == "yes, in the only cell"
    assert told["faster than every peer", "auto"] == (
        "least ratio 2, gibbs in Table 1, n = 10; largest 2; 1 cells"
    )
    assert "least ratio 1, gibbs" in told["faster than every peer", paper]
    likely = "no other sampler has a better held-out likelihood (a tie counts)"
    assert told[likely, "auto"] == "yes, in the only cell"
    assert claims.table({"labels": []}) is None


def test_the_best_value_is_bold_and_the_paper_set_apart():
    rows = [
        made("lovasz", part="learn", seconds=0.001, first=0.01, validity=1.0, guarantee="exact"),
        made("gibbs", part="learn", seconds=0.002, first=0.002, validity=1.0, guarantee="exact"),
        made("xor", part="learn") | {"status": "T.O."},
    ]
    times, first, _ = table1.tables(rows)
    assert times.best == {(0, 1)} and first.best == {(1, 1)} and times.paper_from == 3
    text = markdown(times)
    assert "**1 ms**" in text and "**2 ms**" not in text
    assert text.splitlines().index(next(x for x in text.splitlines() if "···" in x)) == 9
    html = page("t", [experiments.report.Section("h", tables=[times])])
    assert "<strong>1 ms</strong>" in html and html.count('<tr class="paper first">') == 1
    text = latex([times])
    assert r"\textbf{1 ms}" in text and text.count(r"\midrule") == 2
    assert r"\toprule" in text and r"\bottomrule" in text and "lovasz (the paper" in text
    bars = show.grid(
        "t",
        [made("auto", v=1.0, bar=0.1), made("gibbs", v=1.05, bar=0.1), made("xor", v=0.5, bar=0.1)],
        lambda good: f"{good[0]['v']}",
        best=max,
        value=lambda good: good[0]["v"],
        within=lambda good: good[0]["bar"],
    )
    assert bars.best == {(0, 1), (1, 1)}


def test_latex_escapes():
    told = tex("50% & a_b ~ `x_1` \\ 3 µs ± 1")
    assert told == (
        r"50\% \& a\_b \textasciitilde{} \texttt{x\_1} \textbackslash{} 3 $\mu$s $\pm$ 1"
    )
    assert r"\begin{tabular}{lr}" in latex([Table("t", ["a", "b"], [["x", "1"]])])
