"""Does a sampler draw from the law that it claims? Statistical tests of samplers and samples.

    nelson.judge(formula, "prs", theta)            a registered sampler
    nelson.judge(formula, draw)                    any function (formula, theta, n, seed) -> (m, n)
    nelson.judge(formula, "samples.txt")           samples of any origin

returns a `Verdict`: accept, reject, or cannot decide, with the evidence. Import `judge`, `Verdict`
and `TESTS` from here, and tail probabilities from `tails`. Each test has a file of its name;
`judgement.py` chooses among them, `case.py` holds their common input.
"""

from nelson.judging.case import TESTS
from nelson.judging.judgement import judge
from nelson.judging.verdict import Verdict

__all__ = ["TESTS", "Verdict", "judge"]
