"""The task `ksat`: preferred solutions of a random K-SAT formula.

Import `KSat` from `nelson_paper.tasks`.
"""
