"""One file for each sampler, which defines `SAMPLER`. `sampling.registry` finds them by name.

scripts/   what runs in child processes
"""
