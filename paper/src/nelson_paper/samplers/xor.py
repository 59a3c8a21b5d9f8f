"""PAWS, "embed and project": weights as extra bits, then random parities, then a draw in the cell.

    c <= Q(x) / P_theta(x | C) <= 1 / c,     c = 1 - 2^(g-a) / (P (1 - 1/P - 2^(g-a))^2) = 0.915

for P = 64, a = 1 and g = log2((P + 2 sqrt(P + 1) + 2) / P) = 0.36, with probability 0.95 over the
one count of a call.

Embed: every variable gets extra bits so that the weight of x is nearly the number of elements
(x, bits) of the extended formula. ComputeK: k parities leave fewer than P elements in most cells,
k - 1 do not; so k >= log2(N / P) - g for N elements, and k + a parities leave
mu = N / 2^(k + a) <= P 2^(g-a) in the mean. A try: a random cell of k + a parities is enumerated;
with P elements or more the try has failed. Else a number j < P - 1 is drawn, and the j-th element,
projected to x, is the sample; if there are fewer elements, the try has failed.

An element s is in the cell with probability 2^-(k+a). Given that, the others are pairwise
uncorrelated at worst, mu of them in the mean with a variance of at most mu, so that by Chebyshev's
inequality there are P - 1 or more with probability at most mu / (P - 1 - mu)^2 <= 1 - c. Each
element is thus drawn with a probability between c and 1 times 2^-(k+a) / (P - 1). Summed over all
elements, a try succeeds with probability c 2^-(g+a+1) P / (P - 1) = 0.18 at least.

Where it departs from the paper:

* Embedding. The paper sorts assignments by weight into levels of ratio r = 2^b / (2^b - 1) with b
  bits per level. That needs the maximum of the weight (a MAP query) and a circuit that adds up all
  weights, and gives the law only within r^2 (4 for b = 1). Our weights are a product over
  variables, so each variable has its own bits and a comparison (`hashing.embed`): less to solve,
  and no maximum. The bits leave a factor of at most 2 between any two elements. Rejection corrects
  it: the sample is kept with probability w(s) / max w. So nothing is lost to discretisation, and a
  try succeeds with at least half of the probability above.
* ComputeK searches for k from both ends, not from 0 upwards, with 8 ln(m / 0.05) votes for each k.
* Parities are drawn independent of each other, and a cell of few dimensions is enumerated without a
  solver (`hashing.cells`). If there are at most 256 solutions, all are enumerated, and the draw is
  exact.

Each try has its own parities: samples are independent, given the count. Cost: 2 to 6 tries per
sample, cells of some dozens of elements.
"""

from __future__ import annotations

from functools import partial

from nelson.sampling import foreign
from nelson.sampling.sampler import Sampler
from nelson_paper.samplers.hash_draws import draw, variation
from nelson_paper.samplers.hashing.paws import factor

SAMPLER = Sampler(
    name="xor",
    summary="weights as extra bits, random parities, a uniform draw in the cell (PAWS)",
    citation="Ermon, Gomes, Sabharwal, Selman: Embed and project: discrete sampling with universal "
    "hashing, NIPS 2013",
    weighted=True,
    guarantee=lambda problem, sweeps: "approximate" if problem.rest.n_clauses else "exact",
    blocks=partial(foreign.blocks, partial(draw, "xor", 1 / factor() - 1)),
    needs="samplers",
    variation=variation,
    modules=("pycryptosat",),
    seconds=60.0,
    promise="within a factor 1.1 of P (where the count is right: 95%)",
)
