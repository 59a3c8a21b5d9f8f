"""Tasks beyond the paper, as packages, and short programs; none of them is installed.

bus_tests.py, bus.toml      rows for tests: legal, covering, with given shares
learn_streets.py            a network trained through `LovaszLayer`: its answers are always valid
subscriptions.py            a table, by `TableEstimator`; new_rows.py: the same with `Space.learn`
one_way_streets.py, preferred_solutions.py    preferences learned from valid examples
"""
