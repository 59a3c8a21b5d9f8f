"""Exact answers for formulas that are small or narrow: preprocessing, enumeration, circuits.

Import `compiled` (circuits), `listing` (all solutions), `preprocess` and `reduce`. Only
`exact.circuit` starts a knowledge compiler.
"""
