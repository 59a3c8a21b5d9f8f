"""Peers that the paper compares with, rewritten from their papers: `kus`, `waps`, `weightgen`,
`xor` (PAWS), `quicksampler`. `nelson.sampling.registry` finds them where this package is installed.

hashing/   random parity constraints, for `weightgen` and `xor`
scripts/   what runs in child processes
"""
