"""New tables of several tools beside ours: `python -m lab tables`, docs/tables-benchmark.md.

Each tool learns in a process of its own, from the same training rows, and draws as many rows as are
held out. All new tables are measured in one way (`nelson.space.tables.comparison`).
"""
