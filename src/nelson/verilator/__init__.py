"""Verilator: a solver process whose random values are uniform."""
