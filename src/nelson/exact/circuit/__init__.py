"""Circuits: a formula compiled once to decisions over which any theta is a linear pass.

    flat.py    decisions and branches as flat arrays; from D4's text, from an SDD
    build.py   compile a formula: propagation, components, limits, the cache
    child.py   what runs in the child process: D4 or PySDD
    store.py   circuits on disk, under the hash of what was compiled
    passes.py  log Z, means and thresholds of a batch of theta, on threads
    draw.py    samples, packed, on threads

`nelson.exact.compiled` is the front: log Z, means, covariances and samples of a formula.
"""
