"""One file for each sampler, which defines `SAMPLER`. `sampling.registry` finds them by name.

hashing/   random parity constraints, for `weightgen` and `xor`
scripts/   what runs in child processes
"""
