"""Kernels that draw and improve routes."""
