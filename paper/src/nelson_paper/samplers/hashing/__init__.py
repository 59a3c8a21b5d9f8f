"""Sampling by random parity constraints; runs in a child process and imports only what it needs.

`embed` turns weights into extra bits, `cells` cuts the space by random equations and enumerates the
cell, `counting` finds how many equations leave a small cell. `paws` and `weightgen` are the two
samplers built from these. `scripts/hashing.py` runs them.
"""
