"""Kernels for NVIDIA GPUs, written in Numba; they also run in Numba's simulator.

`program` lays a formula out for the GPU, `launch` chooses the shape of a launch and starts it,
`bits` works on packed samples. The other modules are parts of the kernel `draw.draw_words`.
"""
