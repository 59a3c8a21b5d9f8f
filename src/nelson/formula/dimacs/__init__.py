"""DIMACS files: `read` and `parse` make a Formula, `write` writes one, `weights` knows the dialects
of weighted model counting.
"""
