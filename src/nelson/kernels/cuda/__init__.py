"""Kernels of the GPU; the same random numbers and the same samples as `kernels.cpu`."""
