"""Kernels for d-DNNF circuits.

`nnf` reads, evaluates and flattens a compiler's text, `passes` computes log P(C) and means,
`records` and `descent` draw samples; `dive` and `elimination_width` help to guess how large a
circuit gets.
"""
