"""The projected solutions of a formula: the assignments of some variables that a solution extends.

`projected` finds a formula, or a circuit, that has each projected solution exactly once.
"""

from nelson.exact.projection.search import Projected, projected

__all__ = ["Projected", "projected"]
