"""DIMACS files: `read` makes the parts of a formula from one, `write` writes a formula, `weights`
knows the dialects of weighted model counting. Use `Formula.from_dimacs` and `Formula.to_dimacs`.
"""
