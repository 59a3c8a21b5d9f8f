"""Do chains have the law that they should have? `diagnose` gives a `StepVerdict`.

features.py            what is watched: variables, pairs, sums
compare.py             the statistics: memory of chains, agreement between chains
slowest.py             which functions of a state are slowest, and how slow are they?
meeting.py             do samples come together equally often?
patterns.py            values of several variables of a clause that no chain takes
solver.py              a SAT solver in this process
alternative_starts.py  chains that begin elsewhere
diagnose.py            the pilot run
"""
