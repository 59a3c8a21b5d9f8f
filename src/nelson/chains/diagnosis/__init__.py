"""Do chains have the law that they should have? `diagnose` gives a `StepVerdict`.

features.py            what is watched: variables, pairs, sums
compare.py             the statistics: memory of chains, agreement between chains
meeting.py             do samples meet each other equally often?
solver.py              a SAT solver in this process
alternative_starts.py  chains that begin elsewhere
diagnose.py            the pilot run
"""
