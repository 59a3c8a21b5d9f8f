"""Code that all kernels share.

Compilation and its cache, threads, random numbers, Bernoulli draws, rows of words, the layout of
packed samples, formulas as flat arrays, and the NumPy reference that defines every method.
"""
