"""Kernels for d-DNNF circuits.

`nnf` reads, evaluates and flattens a compiler's text, `passes` computes log P(C) and means,
`records` and `descent` draw samples; `size_estimates` guess how large a circuit gets.
"""
