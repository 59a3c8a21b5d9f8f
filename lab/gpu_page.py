"""The table and the picture of docs/gpu.md, from the file that `python -m lab.gpu` writes."""

from __future__ import annotations

import statistics
from datetime import date
from pathlib import Path
from typing import Any

from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

PRECISIONS = ("float32", "TF32")


def parts(found: dict[str, Any]) -> list[str]:
    """The blocks of Markdown between the marks of the page."""
    here = found["machine"]
    day = date.fromisoformat(here["date"])
    lead = (
        f"{day:%-d %B %Y}, one {here['card']}, copies {here['bandwidth'] / 1e12:.1f} TB/s; torch "
        f"{here['torch']}, numba-cuda {here['numba-cuda']}, Python {here['python']}."
    )
    out = [lead, markdown(speed(found)), "![valid samples per second: over the number of "
           "variables, and over the samples of a call](gpu.svg)"]  # fmt: skip
    out += [markdown(table) for table in (latencies(found), layers(found), batches(found))]
    if found["skipped"]:
        out.append("Not measured in this run: " + "; ".join(found["skipped"]) + ".")
    return out


def speed(found: dict[str, Any]) -> Table:
    rows: list[list[str]] = []
    for case in sorted(found["cases"], key=_order):
        rows.append([_named(case), _power(case["samples"]), _rate(case["rate"]),
                     _rate(case["floor"]) if "floor" in case else ""])  # fmt: skip
        if case["case"] != "weighted":
            continue
        for precision in PRECISIONS:
            if best := best_dense(found, case["n"], precision):
                ratio = case["rate"] / best["rate"]
                note = f"dense, {precision}: nelson is {ratio:,.0f} times as fast"
                rows.append([f"  {note}", _power(best["batch"]), _rate(best["rate"]), ""])
    if "sweeps" in found:
        it = found["sweeps"]
        ratio = (it["with 8 sweeps"] - it["draw"]) / it["draw"]
        rows.append([f"8 sweeps, n = {it['n']:,}, weighted: time over that of the draw",
                     _power(it["samples"]), f"{ratio:.1f} x", f"{it['floor']:.1f} x"])  # fmt: skip
    if "learning" in found:
        it = found["learning"]
        took = statistics.median(it["seconds"])
        rows.append([f"one step of NELSON-CD, n = {it['n']:,}", _power(it["samples"]),
                     f"{1e3 * took:.2g} ms", f"{1e3 * it['floor']:.2g} ms"])  # fmt: skip
    return Table("Speed", ("case", "samples of a call", "measured", "floor"), rows)


def latencies(found: dict[str, Any]) -> Table:
    rows = []
    for it in found["latencies"]:
        call, plan = statistics.median(it["call"]), statistics.median(it["plan"])
        rows.append([f"{it['samples']:,}", _ms(call), _ms(plan), _rate(it["samples"] / call)])
    n = found["latencies"][0]["n"] if rows else 0
    columns = ("samples of a call", "nelson.sample, ms", "plan.sample, ms", "samples/s of the call")
    return Table(f"One call, n = L = {n:,}, weighted", columns, rows)


def layers(found: dict[str, Any]) -> Table:
    rows = [[it["layer"], _ms(statistics.median(it["seconds"]))] for it in found["layers"]]
    it = found["layers"][0] if rows else {"rows": 0, "samples": 0, "n": 0}
    title = (
        f"A training step, {it['rows']} rows of logits with {it['samples']} samples each, "
        f"n = L = {it['n']:,}: draw, a quadratic function, its gradient"
    )
    return Table(title, ("layer", "ms"), rows)


def batches(found: dict[str, Any]) -> Table:
    """Every batch size of the dense formulation that was tried."""
    rows = []
    for n, precision, compact in sorted(
        {(d["n"], d["precision"], d["compact"]) for d in found["dense"]},
        key=lambda one: (one[0], one[1] == "TF32", not one[2]),
    ):
        tried = [d for d in found["dense"] if (d["n"], d["precision"], d["compact"]) ==
                 (n, precision, compact)]  # fmt: skip
        told = [f"{_power(d['batch'])}: {_rate(d['rate']) if d['rate'] else 'no memory'}"
                for d in sorted(tried, key=lambda d: d["batch"])]  # fmt: skip
        loop = "valid samples leave the batch" if compact else "the paper's loop"
        rows.append([f"{n:,}", precision, loop, "; ".join(told)])
    columns = ("n = L", "products", "loop", "batch: valid samples per second")
    return Table("Dense, by batch size", columns, rows)


def best_dense(found: dict[str, Any], n: int, precision: str) -> dict[str, Any] | None:
    """The fastest batch of a size and precision, where valid samples leave the batch."""
    tried = [d for d in found["dense"] if d["n"] == n and d["precision"] == precision]
    return max((d for d in tried if d["compact"] and d["rate"]), key=_rate_key, default=None)


def picture(found: dict[str, Any], path: Path) -> None:
    """Left: over n, each call as large as is useful. Right: over the samples of a call."""
    import matplotlib.pyplot as plt

    from nelson_paper import style

    drawn = {
        "TF32": (style.ORANGE, "^--", "dense in torch, TF32"),
        "float32": (style.GREY, "s--", "dense in torch, float32"),
    }
    weighted = sorted((c for c in found["cases"] if c["case"] == "weighted"), key=lambda c: c["n"])
    with style.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
        ends = [(weighted[-1]["rate"], "nelson", style.BLUE)]
        left.loglog([c["n"] for c in weighted], [c["rate"] for c in weighted], "o-",
                    color=style.BLUE)  # fmt: skip
        for precision, (colour, marker, name) in drawn.items():
            best = [best_dense(found, c["n"], precision) for c in weighted]
            pairs = [(c, d) for c, d in zip(weighted, best, strict=True) if d]
            left.loglog([d["n"] for _, d in pairs], [d["rate"] for _, d in pairs], marker,
                        color=colour)  # fmt: skip
            below = precision == "float32"
            for c, d in pairs:
                left.annotate(f"{c['rate'] / d['rate']:,.0f} x", (d["n"], d["rate"]),
                              (0, -13 if below else 7), textcoords="offset points", ha="center",
                              color=colour, fontsize="small")  # fmt: skip
            ends.append((pairs[-1][1]["rate"], name.replace(", ", ",\n"), colour))
        left.margins(x=0.12, y=0.12)
        style.measured(left, xlabel="variables n = clauses L", ylabel="valid samples per second",
                       title="Best batch of each; numbers: nelson over dense")  # fmt: skip
        style.label_ends(left, ends)
        n = weighted[0]["n"] if not found["latencies"] else found["latencies"][0]["n"]
        ours = [(it["samples"], it["samples"] / statistics.median(it["call"]))
                for it in found["latencies"]]  # fmt: skip
        ours += [(c["samples"], c["rate"]) for c in weighted if c["n"] == n]
        right.loglog(*zip(*sorted(ours), strict=True), "o-", color=style.BLUE)
        ends = [(max(ours)[1], "nelson", style.BLUE)]
        for precision, (colour, marker, name) in drawn.items():
            tried = sorted((d["batch"], d["rate"]) for d in found["dense"]
                           if d["n"] == n and d["precision"] == precision and d["compact"]
                           and d["rate"])  # fmt: skip
            if tried:
                right.loglog(*zip(*tried, strict=True), marker, color=colour)
                ends.append((tried[-1][1], name.replace(", ", ",\n"), colour))
        style.measured(right, xlabel="samples of one call, or of one batch",
                       title=f"n = L = {n:,}, by batch size")  # fmt: skip
        style.label_ends(right, ends)
        figure.suptitle(
            f"Random 5-SAT, weights θ ~ N(0, 1), one {found['machine']['card']}, wall time",
            x=0.01, ha="left", fontsize=11,
        )  # fmt: skip
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _rate_key(entry: dict[str, Any]) -> float:
    return float(entry["rate"])


def _order(case: dict[str, Any]) -> tuple[int, int, str]:
    kinds = ("weighted", "uniform", "large", "sink-free")
    kind = kinds.index(case["case"]) if case["case"] in kinds else len(kinds)
    return kind, case["n"], case["case"]


def _named(case: dict[str, Any]) -> str:
    n, kind = f"n = {case['n']:,}", case["case"]
    if kind == "sink-free":
        law = case["guarantee"]
        return f"sink-free orientations, {case['vertices']} vertices, {case['n']} edges, {law}"
    if kind == "large":
        return f"{n}, weighted; {case['bytes'] / 1e9:.1f} GB on the GPU"
    if kind.startswith("cftp"):
        return f"{n}, {kind.replace('cftp, ', '')}, by `cftp`: {case['guarantee']}"
    return f"{n}, {kind}"


def _power(count: int) -> str:
    return f"2^{count.bit_length() - 1}" if count & (count - 1) == 0 else f"{count:,}"


def _rate(rate: float) -> str:
    for unit, name in ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")):
        if rate >= unit:
            return f"{rate / unit:.3g} {name}"
    return f"{rate:.3g}/s"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
