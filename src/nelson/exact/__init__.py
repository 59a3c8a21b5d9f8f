"""Exact answers for formulas that are small or narrow.

Import `enumerated` (sums over all structures), `listing` (the structures), `compiled` (circuits),
`preprocess`, `reduce`, `solver`. Only `exact.circuit` starts a knowledge compiler.
"""
