"""Published log-likelihoods of the data sets, in nats for one test row; the best one first.

NADE, fixed order      Larochelle, Murray: The Neural Autoregressive Distribution Estimator, AISTATS
                       2011
EoNADE                 Uria, Murray, Larochelle: A Deep and Tractable Density Estimator, ICML 2014
DARN                   Gregor et al.: Deep AutoRegressive Networks, ICML 2014
MADE                   Germain et al.: MADE, Masked Autoencoder for Distribution Estimation, ICML
                       2015 (arXiv 1502.03509); with one mask, or with mask sampling

All as cited in the table of the UCI data sets in the MADE paper (negative log-likelihoods of models
on several data sets). We could not open that table: the figures are those that a reader of this
page reported, who corrected an older list of ours. For other sets no figure is given.
"""

from __future__ import annotations

PUBLISHED: dict[str, list[tuple[str, float]]] = {
    "mushrooms": [("DARN", -9.55), ("MADE", -9.68)],
    "dna": [("MADE, mask sampling", -79.66), ("EoNADE", -82.31)],
    "connect4": [("NADE, fixed order", -11.99), ("EoNADE", -12.58)],
}
#: Models that were told rules which the published ones did not have: their scores are not compared.
TOLD_RULES = ("game",)
#: What a table says of a set without a figure.
NOT_FOUND = "not found"
