"""The table and the picture of docs/gpu.md, from the file that `python -m lab.gpu` writes."""

from __future__ import annotations

import statistics
from datetime import date
from pathlib import Path
from typing import Any

from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

#: The figures that docs/gpu.md shows.
FIGURES = Path(__file__).parent / "gpu-figures.json"
PRECISIONS = ("float32", "TF32")


def parts(found: dict[str, Any]) -> list[str]:
    """The blocks of Markdown between the marks of docs/gpu.md."""
    here = found["machine"]
    day = date.fromisoformat(here["date"])
    lead = (
        f"{day:%-d %B %Y}, one {here['card']}, copies {here['bandwidth'] / 1e12:.1f} TB/s; torch "
        f"{here['torch']}, numba-cuda {here['numba-cuda']}, Python {here['python']}."
    )
    words = "valid samples per second: over the number of variables, and over the samples of a call"
    out = [lead, f"![{words}](gpu.svg)", markdown(against(found)), markdown(others(found))]
    out += [markdown(table) for table in (latencies(found), layers(found))]
    bits = found.get("same bits", [])
    if bits and all(one["same"] for one in bits):
        out.append(
            f"In this run {bits[0]['samples']:,} samples of n = {bits[0]['n']:,}, with 0 and "
            f"{bits[-1]['sweeps']} sweeps, were compared with those of the CPU: the same bits."
        )
    if found["skipped"]:
        out.append("Not measured in this run: " + "; ".join(found["skipped"]) + ".")
    return out


def against(found: dict[str, Any]) -> Table:
    """Weighted formulas of several sizes, beside the dense formulation in both precisions."""
    rows = []
    for case in sorted(_weighted(found), key=lambda case: case["n"]):
        row = [f"{case['n']:,}", _rate(case["rate"]), _power(case["samples"]), _rate(case["floor"])]
        for precision in PRECISIONS:
            best = best_dense(found, case["n"], precision)
            row.append("" if best is None else f"{case['rate'] / best['rate']:,.0f} x "
                       f"({_rate(best['rate'])} in {_power(best['batch'])})")  # fmt: skip
        rows.append(row)
    columns = ("n = L", "nelson", "samples of a call", "floor",
               *(f"faster than dense, {precision}" for precision in PRECISIONS))  # fmt: skip
    lead = "TF32 products are exact here, because W, b and V hold 0, 1 and -1."
    return Table("Valid samples per second, 5-SAT with weights θ ~ N(0, 1)", columns, rows,
                 lead=lead)  # fmt: skip


def others(found: dict[str, Any]) -> Table:
    rows: list[list[str]] = []
    for case in sorted(found["cases"], key=_order):
        if case["case"] != "weighted":
            rows.append([_named(case), _power(case["samples"]), _rate(case["rate"]),
                         _rate(case["floor"]) if "floor" in case else ""])  # fmt: skip
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
    return Table("Other cases", ("case", "samples of a call", "measured", "floor"), rows)


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
    """Above: over n, each call as large as is useful. Below: over the samples of a call."""
    import matplotlib.pyplot as plt

    from nelson_paper import style

    drawn = {
        "TF32": (style.ORANGE, "^--", "dense, TF32"),
        "float32": (style.GREY, "s--", "dense, float32"),
    }
    weighted = sorted(_weighted(found), key=lambda case: case["n"])
    with style.style():
        figure, (above, below) = plt.subplots(2, 1, figsize=(6.2, 7.6), layout="constrained")
        ends = [(weighted[-1]["rate"], "nelson", style.BLUE)]
        above.loglog([c["n"] for c in weighted], [c["rate"] for c in weighted], "o-",
                    color=style.BLUE)  # fmt: skip
        for precision, (colour, marker, name) in drawn.items():
            best = [best_dense(found, c["n"], precision) for c in weighted]
            pairs = [(c, d) for c, d in zip(weighted, best, strict=True) if d]
            above.loglog([d["n"] for _, d in pairs], [d["rate"] for _, d in pairs], marker,
                        color=colour)  # fmt: skip
            under = precision == "float32"
            for c, d in pairs:
                above.annotate(f"{c['rate'] / d['rate']:,.0f} x", (d["n"], d["rate"]),
                              (0, -13 if under else 7), textcoords="offset points", ha="center",
                              color=colour, fontsize="small")  # fmt: skip
            ends.append((pairs[-1][1]["rate"], name, colour))
        above.margins(x=0.12, y=0.12)
        style.measured(above, xlabel="variables n = clauses L", ylabel="valid samples per second",
                       title="Best batch of each; numbers: nelson over dense")  # fmt: skip
        style.label_ends(above, ends)
        n = weighted[0]["n"] if not found["latencies"] else found["latencies"][0]["n"]
        ours = [(it["samples"], it["samples"] / statistics.median(it["call"]))
                for it in found["latencies"]]  # fmt: skip
        ours += [(c["samples"], c["rate"]) for c in weighted if c["n"] == n]
        below.loglog(*zip(*sorted(ours), strict=True), "o-", color=style.BLUE)
        ends = [(max(ours)[1], "nelson", style.BLUE)]
        for precision, (colour, marker, name) in drawn.items():
            tried = sorted((d["batch"], d["rate"]) for d in found["dense"]
                           if d["n"] == n and d["precision"] == precision and d["compact"]
                           and d["rate"])  # fmt: skip
            if tried:
                below.loglog(*zip(*tried, strict=True), marker, color=colour)
                ends.append((tried[-1][1], name, colour))
        style.measured(below, xlabel="samples of one call, or of one batch",
                       ylabel="valid samples per second",
                       title=f"n = L = {n:,}, by batch size")  # fmt: skip
        style.label_ends(below, ends)
        figure.suptitle(
            f"Random 5-SAT, weights θ ~ N(0, 1), one {found['machine']['card']}, wall time",
            x=0.01, ha="left", fontsize=11,
        )  # fmt: skip
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _weighted(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for case in found["cases"] if case["case"] == "weighted"]


def _rate_key(entry: dict[str, Any]) -> float:
    return float(entry["rate"])


def _order(case: dict[str, Any]) -> tuple[int, int, str]:
    kinds = ("uniform", "large", "sink-free")
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
    if count & (count - 1):
        return f"{count:,}"
    return "2" + str(count.bit_length() - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _rate(rate: float) -> str:
    for unit, name in ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")):
        if rate >= unit:
            return f"{rate / unit:.3g} {name}"
    return f"{rate:.3g}/s"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
