"""Kernels that simplify formulas: propagation, probing, subsumption, elimination, components."""
