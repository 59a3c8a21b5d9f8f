"""Kernels of the local lemma: fixpoints, Shearer's polynomial, enumeration of violations."""
