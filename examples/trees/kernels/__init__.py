"""Compiled loops of the matrix-tree theorem."""
