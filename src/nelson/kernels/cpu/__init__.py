"""Kernels of the CPU: resampling rounds, sweeps, checks, all 64 samples of a word at once."""
