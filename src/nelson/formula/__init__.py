"""What must hold: CNF formulas as flat arrays, and everything that is about clauses alone.

Import `Formula` from here; encoders, names, unit propagation and components from the modules.
"""

from nelson.formula.formula import Formula

__all__ = ["Formula"]
