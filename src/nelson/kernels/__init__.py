"""Hot loops and nothing else. Kernels take flat arrays, hold no policy and import no other room.

Import the modules of `core` (compilation, random numbers, bits, the NumPy reference), `cpu`,
`cuda`, `circuit`, `reduce` and `theory`. Most of them load Numba.
"""
