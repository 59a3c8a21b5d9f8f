"""Published log-likelihoods of the data sets, in nats for one test row.

EoNADE    Uria, Murray, Larochelle: A Deep and Tractable Density Estimator, ICML 2014: the best of
          NADE and its ensembles. Checked against a public list of that paper's results.

For other sets no figure is given: we found none whose source we could read.
"""

from __future__ import annotations

PUBLISHED: dict[str, list[tuple[str, float]]] = {
    "mushrooms": [("EoNADE", -9.68)],
    "dna": [("EoNADE", -82.31)],
    "connect4": [("EoNADE", -11.99)],
}
#: What a table says of a set without a figure.
NOT_FOUND = "not found"
