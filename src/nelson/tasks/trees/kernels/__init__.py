"""Kernels of the matrix-tree theorem."""
