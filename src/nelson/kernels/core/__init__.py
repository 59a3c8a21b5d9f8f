"""What all kernels share: compilation, random numbers, bit layout, the NumPy reference."""
