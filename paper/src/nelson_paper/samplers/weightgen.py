"""WeightGen: random parities cut the solutions into cells of known weight; a draw by weight in one.

    w(y) / ((1 + epsilon) w(S)) <= P(a try gives y) <= (1 + epsilon) w(y) / w(S),   epsilon = 16
    P(a try gives anything) >= 0.62

for every solution y of S. So the samples are within a factor (1 + epsilon) / 0.62 of the law; this
factor is `info["epsilon"]` + 1. The observed law is far closer.

A try. kappa solves (1 + kappa) (7.55 + 0.29 / (1 - kappa)^2) - 1 = epsilon, and pivot = ceil(4.03
(1 + 1/kappa)^2). With weights scaled to at most 1, the total weight is estimated once, within a
factor 1.8, and q = ceil(log2(1.8 w(S) / pivot)). For k = q - 3, .., q random parities in turn, the
solutions in the cell are enumerated until their weight exceeds hiThresh = 1 + sqrt(2) (1 + kappa)
pivot. The first cell with a weight between loThresh = pivot / (sqrt(2) (1 + kappa)) and hiThresh
gives one of its solutions, drawn by weight. If no cell has such a weight, the try has failed. Each
try has its own parities: samples are independent, given the estimate. If there are at most 256
solutions, all are enumerated, and the draw is exact.

Where it departs from the paper:

* Tilt. Cells hold up to r hiThresh solutions, r = max w / min w, which for an MRF is up to
  exp(sum_i |theta_i|): hopeless beyond a few units. So weights are first turned into extra bits of
  the formula (`hashing.embed`: the reduction of Chakraborty, Fried, Meel, Vardi, IJCAI 2015) until
  the remaining weights have r <= 2. Summed over the extra bits of y they are w(y), so the promise
  above holds unchanged. It costs 3 to 6 hash bits per weighted variable. A formula that is hard to
  cut by many parities is then out of reach: the budget ends the call.
* The estimate is a mean of cell weights (`hashing.counting`), not WeightMC's median: it is within a
  factor 1.8 with probability 0.93; the theory needs 0.8.
* Parities are drawn independent of each other, and a cell of few dimensions is enumerated without a
  solver (`hashing.cells`). Neither changes the promise.

Cost: about 2 cells of some dozens of solutions per sample.
"""

from __future__ import annotations

from functools import partial

from nelson.sampling import foreign
from nelson.sampling.sampler import Sampler
from nelson_paper.samplers.hash_draws import draw, variation
from nelson_paper.samplers.hashing.weightgen import EPSILON

#: The probability that a try succeeds is at least this.
SUCCESS = 0.62

SAMPLER = Sampler(
    name="weightgen",
    summary="random parities cut the solutions into cells of like weight; draw by weight in one",
    citation="Chakraborty, Fremont, Meel, Seshia, Vardi: Distribution-aware sampling and weighted "
    "model counting for SAT, AAAI 2014",
    weighted=True,
    guarantee=lambda problem, sweeps: "approximate" if problem.rest.n_clauses else "exact",
    blocks=partial(foreign.blocks, partial(draw, "weightgen", (1 + EPSILON) / SUCCESS - 1)),
    needs="samplers",
    variation=variation,
    modules=("pycryptosat",),
    seconds=60.0,
    promise="within a factor 27.4 of P (where the count is right: 93%)",
)
