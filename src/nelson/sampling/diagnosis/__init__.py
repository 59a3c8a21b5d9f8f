"""Do chains have the law that they should have? `diagnose` gives a `Verdict`.

features.py   what is watched: variables, pairs, sums
compare.py    the statistics: memory of chains, agreement between chains
starts.py     a SAT solver in this process
elsewhere.py  chains that begin elsewhere
diagnose.py   the pilot run
"""
