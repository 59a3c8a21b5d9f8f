"""Kernels for the CPU, which handle the 64 samples of a word at once.

`tiles` draws samples (with `rounds` and `sweep`), `resume` continues chains, `gibbs` samples a soft
formula, `choice` samples tables; `check`, `moments`, `rows` and `text` work on packed samples.
"""
