"""log Z: exact where that can be had within a budget, else an estimate with a confidence interval.

    Z_C(theta) = sum over x in {0,1}^n of exp(sum_i theta_i x_i) C(x)
    log Z      = sum_i log(1 + e^theta_i) + log P(C),     P the product law of theta

Every method here computes log P(C), the probability that independent draws are valid, so none of
them over- or underflows and variables that a method never sees count for a factor of 1.

    reduce.py     unit propagation, evidence, independent components: log Z adds up over them
    exact.py      enumeration; weighted counting (ganak) and circuits (D4) in a child process
    child.py      what runs in that child: a script of its own (run by `nelson.process.child`)
    circuit.py    a d-DNNF as flat arrays, evaluated bottom-up in log space
    telescope.py  the estimate: groups of clauses added one after the other, each ratio by sampling
    api.py        `log_partition`, which picks among them
"""

from nelson.log_z.compute import METHODS, log_partition
from nelson.log_z.result import LogPartition

__all__ = ["METHODS", "LogPartition", "log_partition"]
