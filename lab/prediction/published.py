"""Published figures.

AUPRC    area under the precision-recall curve: C-HMCNN (Giunchiglia, Lukasiewicz, NeurIPS 2020), as
         its repository states them; single networks, ten runs.
"""

from __future__ import annotations

AUPRC = {
    "cellcycle": 0.255, "derisi": 0.195, "eisen": 0.306, "gasch1": 0.286, "gasch2": 0.258,
    "seq": 0.292, "spo": 0.215, "diatoms": 0.758, "enron": 0.756, "imclef07a": 0.956,
    "imclef07d": 0.927,
}  # fmt: skip
