"""Circuits: a formula compiled once to a d-DNNF, in which every theta costs one linear pass.

`nelson.exact.compiled` is the front. `build` chooses the compiler and is the only place that starts
D4; `frontier` is a compiler for narrow formulas, and `nelson.exact.frontier_order` finds an order
of variables for it and for D4. `NnfCircuit` is a d-DNNF as D4 writes it, `DecisionCircuit` the form
that is kept and sampled.
"""
