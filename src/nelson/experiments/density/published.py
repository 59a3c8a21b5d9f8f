"""Published log-likelihoods of the data sets, in nats for one test row.

NADE      Larochelle, Murray: The Neural Autoregressive Distribution Estimator, AISTATS 2011
EoNADE    Uria, Murray, Larochelle: A Deep and Tractable Density Estimator, ICML 2014
SPN       sum-product networks and their kin on the twenty data sets of Lowd and Davis (2010)
Chow-Liu  the tree of greatest likelihood, as several projects report it for nltcs

mushrooms, dna and connect4 are the best of NADE and its ensembles in the table of EoNADE. The
figures of adult (the same table) and nltcs (about; the best networks lie between -6.04 and -5.99)
were not checked against the papers.
"""

from __future__ import annotations

PUBLISHED: dict[str, list[tuple[str, float]]] = {
    "mushrooms": [("EoNADE", -9.68)],
    "dna": [("EoNADE", -82.31)],
    "connect4": [("NADE", -11.99)],
    "adult": [("NADE", -13.19)],
    "nltcs": [("SPN, about", -6.0), ("Chow-Liu", -6.76)],
}
