"""`python -m lab verilator`: randomize() through Verilator's protocol, ours and other solvers."""
