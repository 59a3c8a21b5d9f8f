"""A town makes its streets one-way: in the directions that people prefer, without dead ends.

The preferences are not known, but the directions driven on 500 days are. This example learns the
preferences from them, proposes new plans, and says which streets matter most to people. It writes
one-way-streets.png, for which it needs matplotlib.

    python examples/one_way_streets.py [--days 500] [--seed 0]
"""

from __future__ import annotations

import argparse

import networkx as nx
import numpy as np

from nelson_paper.tasks import Orientations


def town(rows: int = 4, columns: int = 5) -> nx.Graph:
    """Crossings A, B, C, ... on a grid, with their place on the map."""
    grid = nx.grid_2d_graph(rows, columns)
    for row, column in grid:
        grid.nodes[row, column]["pos"] = (column, -row)
    return nx.relabel_nodes(grid, {(r, c): chr(65 + r * columns + c) for r, c in grid})


def main(days: int = 500, seed: int = 0, picture: str | None = "one-way-streets.png") -> float:
    task = Orientations(town(), seed=seed)
    # Here the days are drawn from hidden preferences; with real data, read them from a file.
    driven = task.examples(days, seed=seed)
    fit = task.learn(driven, seed=seed)
    plans = task.sample(fit.theta, 10_000, seed=seed + 1)
    print(f"{task.describe()}; {days} days")
    print(f"10,000 new plans: {task.valid(plans.x).mean():.0%} valid, {plans.guarantee}")
    print("strongest preferences (log-odds, learned | hidden):")
    hidden = task.preferences(task.planted)
    for (u, v), weight in list(task.preferences(fit.theta).items())[:5]:
        print(f"  {u} -> {v}   {weight:5.2f} | {hidden.get((u, v), -hidden.get((v, u), 0)):5.2f}")
    error = np.linalg.norm(fit.theta - task.planted) / np.linalg.norm(task.planted)
    print(f"relative error of all weights: {error:.2f} (all weights 0 would give 1)")
    if picture:
        best = plans.x[np.argmax(plans.x @ fit.theta)]
        print(
            "picture:", task.draw(best, picture, theta=fit.theta, title="The best of 10,000 plans")
        )
    return float(error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    main(options.days, options.seed)
