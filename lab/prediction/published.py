"""Published figures.

AUPRC    area under the precision-recall curve: C-HMCNN (Giunchiglia, Lukasiewicz, NeurIPS 2020), as
         its repository states them; single networks, ten runs.
EXACT    exact match in per cent, (C-HMCNN, SPL) or (network, semantic loss, SPL): Ahmed, Teso,
         Chang, Van den Broeck, Vergari, Semantic Probabilistic Layers, NeurIPS 2022, the tables of
         hierarchies, of simple paths and of preferences. Ten runs. Written down without the paper
         at hand.
"""

from __future__ import annotations

AUPRC = {
    "cellcycle": 0.255, "derisi": 0.195, "eisen": 0.306, "gasch1": 0.286, "gasch2": 0.258,
    "seq": 0.292, "spo": 0.215, "diatoms": 0.758, "enron": 0.756, "imclef07a": 0.956,
    "imclef07d": 0.927,
}  # fmt: skip

HIERARCHY, SMALL = ("C-HMCNN", "SPL"), ("network", "semantic loss", "SPL")
EXACT = {
    "cellcycle": (3.05, 3.79), "derisi": (1.39, 2.28), "eisen": (5.40, 6.18),
    "gasch1": (3.48, 4.65), "gasch2": (3.11, 3.95), "seq": (5.24, 7.98), "spo": (1.97, 1.92),
    "diatoms": (48.21, 58.71), "enron": (5.97, 8.18), "imclef07a": (79.75, 86.08),
    "imclef07d": (76.47, 81.06), "paths": (5.6, 28.5, 37.6), "sushi": (1.0, 15.0, 20.8),
}  # fmt: skip


def exact(task: str) -> dict[str, float]:
    values = EXACT.get(task, ())
    return dict(zip(HIERARCHY if len(values) == 2 else SMALL, values, strict=False))
