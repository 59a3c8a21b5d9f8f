"""Exact answers for formulas that are small or narrow.

Import `enumerated` (sums over all structures), `listing` (the structures), `compiled` (circuits),
`mode` (a most likely structure), `conflict` (clauses that contradict each other), `hull` (can these
shares occur?), `compile_guess`, `preprocess`, `solver`. Only `exact.circuit` starts a compiler.
"""
