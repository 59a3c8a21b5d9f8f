"""Trust, but test: does a sampler draw from the law it claims?

    nelson.judge(formula, "prs", theta)            a registered sampler
    nelson.judge(formula, draw)                    any function (formula, theta, n, seed) -> (m, n)
    nelson.judge(formula, "samples.txt")           samples of any origin

returns a `Verdict`: accept, reject, or cannot decide, with the evidence. What each test shows:

    validity.py      every sample satisfies the formula
    chi_square.py    the whole law, where all structures can be listed
    marginals.py     variables, pairs and the score, where they can be counted (`exact.py`)
    conditionals.py  each variable given the others; needs no count, can only reject
    barbarik.py      pairs of structures by conditional sampling (`kernel.py`, `ideal.py`)

`source.py` and `reading.py` hold what is judged, `band.py` what is tolerated, `tails.py` p-values,
`case.py` the arguments, `api.py` the choice.
"""

from nelson.judging.case import TESTS
from nelson.judging.judgement import judge
from nelson.judging.verdict import Verdict

__all__ = ["TESTS", "Verdict", "judge"]
