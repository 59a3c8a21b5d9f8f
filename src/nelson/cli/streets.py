"""The demo's town: seven streets, six crossings, drawn in the terminal or by matplotlib.

The formula is `data/streets.cnf`. Variable i is street i; true: it runs right or down.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

CROSSINGS = {"A": (0, 1), "B": (1, 1), "C": (2, 1), "D": (0, 0), "E": (1, 0), "F": (2, 0)}
STREETS = ("AB", "BC", "AD", "BE", "CF", "DE", "EF")


def draw(plan: np.ndarray) -> list[str]:
    """Five lines of text: `(7,)` bool -> the town with an arrow on every street."""
    across = ["►" if x else "◄" for x in plan]
    down = ["▼" if x else "▲" for x in plan]
    wall = "│     │     │"
    return [
        f"A──{across[0]}──B──{across[1]}──C",
        wall,
        "     ".join(down[2:5]),
        wall,
        f"D──{across[5]}──E──{across[6]}──F",
    ]


def side_by_side(plans: Iterable[np.ndarray], gap: str = "      ") -> str:
    return "\n".join(gap.join(lines) for lines in zip(*map(draw, plans), strict=True))


def short(plan: np.ndarray) -> str:
    """The plan in one line: upper road, three side streets, lower road."""
    across = ["→" if x else "←" for x in plan]
    down = ["↓" if x else "↑" for x in plan]
    return f"{across[0]}{across[1]} {''.join(down[2:5])} {across[5]}{across[6]}"


def law(formula: Any, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All valid plans, likeliest first, and P(x) = exp(theta . x) C(x) / Z, by enumeration."""
    n = formula.n_vars
    x = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    x = x[formula.satisfied(x)]
    weight = np.exp(x @ theta)
    order = np.argsort(-weight, kind="stable")
    return x[order], weight[order] / weight.sum()


def tally(drawn: np.ndarray, plans: np.ndarray) -> np.ndarray:
    """How often each plan was drawn. `(m, 7)` bool, `(k, 7)` bool -> `(k,)` int."""
    place = 1 << np.arange(plans.shape[1])
    counts = np.bincount(drawn @ place, minlength=2 ** plans.shape[1])
    return counts[plans @ place]


def save_png(path: str, plans: np.ndarray, exact: np.ndarray, counts: np.ndarray) -> None:
    """The likeliest plans as maps, and drawn against exact frequencies with 2-sigma bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(11, 6.2), layout="constrained")
    panels: Any = figure.subfigures(2, 1, height_ratios=(1, 1.25))
    maps, chart = panels
    for axis, plan, p in zip(maps.subplots(1, 4), plans, exact, strict=False):
        for street, forward in zip(STREETS, plan, strict=True):
            tail, head = (CROSSINGS[c] for c in (street if forward else street[::-1]))
            arrow = {"arrowstyle": "-|>,head_width=0.35,head_length=0.7", "color": "#2563a8"}
            axis.annotate("", head, tail, arrowprops={**arrow, "lw": 2, "shrinkA": 9, "shrinkB": 9})
        for name, (x, y) in CROSSINGS.items():
            axis.text(x, y, name, ha="center", va="center", fontsize=11)
        axis.set(xlim=(-0.3, 2.3), ylim=(-0.35, 1.35), aspect="equal", title=f"{p:.1%}")
        axis.axis("off")
    maps.suptitle("The four likeliest plans: every crossing has a way out")
    m = counts.sum()
    axis = chart.subplots()
    at = np.arange(len(plans))
    error = 2 * np.sqrt(exact * (1 - exact) / m)
    axis.bar(at, counts / m, color="#9ec5e8", label=f"drawn, {m:,} samples")
    axis.errorbar(at, exact, error, fmt="_", ms=16, color="#b3261e", label="exact, ± 2σ")
    axis.set(ylabel="frequency", xlabel="plan")
    axis.set_xticks(at, [str(i + 1) for i in at])
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
