"""WeightGen: random parities cut the solutions into cells of known weight; a draw by weight in one.

    w(y) / ((1 + epsilon) w(S)) <= P(a try gives y) <= (1 + epsilon) w(y) / w(S),   epsilon = 16
    P(a try gives anything) >= 0.62

for every solution y of S. So what comes out is within a factor (1 + epsilon) / 0.62 of the law:
that is `info["epsilon"]` + 1. What is observed is far closer.

A try. kappa solves (1 + kappa) (7.55 + 0.29 / (1 - kappa)^2) - 1 = epsilon, and
pivot = ceil(4.03 (1 + 1/kappa)^2). With weights scaled to at most 1, the total weight is estimated
once, within a factor 1.8, and q = ceil(log2(1.8 w(S) / pivot)). For k = q - 3, .., q random
parities in turn, the solutions in the cell are listed until their weight passes
hiThresh = 1 + sqrt(2) (1 + kappa) pivot. The first cell of a weight from
loThresh = pivot / (sqrt(2) (1 + kappa)) to hiThresh gives one of its solutions, by weight; if there
is none, the try has failed. Each try has parities of its own: samples are independent, given the
estimate. Where there are at most 256 solutions all are listed, and the draw is exact.

Where it departs from the paper:

* Tilt. Cells hold up to r hiThresh solutions, r = max w / min w, which for an MRF is up to
  exp(sum_i |theta_i|): hopeless beyond a few units. So weights are first turned into extra bits of
  the formula (`nelson.sampling.methods.hashing.embed`: the reduction of Chakraborty, Fried, Meel, Vardi, IJCAI
  2015) until the weights that are left have r <= 2. Summed over the extra bits of y they are w(y):
  the promise above is kept as it is. It costs some 3 to 6 hash bits a weighted variable; a formula
  that is hard to cut by many parities is then out of reach, and the budget says so.
* The estimate is a mean of cell weights (`nelson.sampling.methods.hashing.counting`), not WeightMC's median of many:
  within 1.8 with probability 0.93, where 0.8 is asked for.
* Parities are drawn independent of each other, and a cell of few dimensions is listed at once
  without a solver (`nelson.sampling.methods.hashing.cells`); neither changes what is promised.

Cost: about 2 cells of some dozens of solutions a sample.
"""

from __future__ import annotations

from functools import partial

from nelson.sampling import foreign
from nelson.sampling.methods.hashed import draw
from nelson.sampling.methods.hashing.weightgen import EPSILON
from nelson.sampling.sampler import Sampler

#: Probability that a try succeeds, at least.
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
    modules=("pycryptosat",),
    seconds=60.0,
    promise="within a factor 27.4 of the law (where the count is right: 93%)",
)
