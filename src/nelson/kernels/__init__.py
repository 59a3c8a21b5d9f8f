"""Hot loops and nothing else. Kernels take flat arrays, hold no policy, import no other room.

`core` (random numbers, bits, the plain reference), `cpu`, `cuda`, `circuit`, `reduce`, `theory`.
"""
