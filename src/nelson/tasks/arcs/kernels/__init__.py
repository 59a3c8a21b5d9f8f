"""Kernels of cycle and cluster popping."""
