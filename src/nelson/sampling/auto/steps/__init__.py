"""The steps of `auto`, one file each. `ladder.py` has the list, in their order.

extremal.py     Condition 1 holds: resampling is exact
enumeration.py  few structures; or few inputs decide all variables, and their values are enumerated
circuit.py      a d-DNNF within a share of the budget; later, with more effort
coupling.py     coupled chains of all starts meet
rejection.py    random assignments, or random inputs of gates, are often valid
resampling.py   resampling converges in a pilot run, and sweeps follow
solver.py       chains from solutions of a CDCL solver
"""
