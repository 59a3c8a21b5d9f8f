"""Kernels for the CPU, which handle the 64 samples of a word at once.

`tiles` draws samples and continues chains (with `rounds` and `sweep`), `gibbs` samples a soft
formula, `choice` samples tables; `rows` and `packed_samples` work on packed samples.
"""
