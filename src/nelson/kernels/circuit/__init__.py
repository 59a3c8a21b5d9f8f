"""Kernels over d-DNNF circuits: parsing, counting, drawing; and the guess how large one gets."""
