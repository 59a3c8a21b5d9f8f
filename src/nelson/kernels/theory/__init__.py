"""Kernels of the local lemma: fixpoints of its criteria, Shearer's polynomial, enumeration."""
