"""Does a sampler draw from the law that it claims? Statistical tests of samplers and samples.

    nelson.judge(formula, "prs", theta)            a registered sampler
    nelson.judge(formula, draw)                    any function (formula, theta, n, seed) -> (m, n)
    nelson.judge(formula, "samples.txt")           samples of any origin

returns a `Verdict`: accept, reject, or cannot decide, with the evidence. Import `judge`, `Verdict`
and `TESTS` from here, and tail probabilities from `tails`. The tests, one file each:

    validity.py      every sample satisfies the formula
    chi_square.py    the whole law, if all structures can be enumerated
    marginals.py     variables, pairs and the score against exact values (`exact.py`)
    conditionals.py  each variable given the others; can only reject
    barbarik.py      pairs of structures, by sampling from conditioned formulas
"""

from nelson.judging.case import TESTS
from nelson.judging.judgement import judge
from nelson.judging.verdict import Verdict

__all__ = ["TESTS", "Verdict", "judge"]
