"""Kernels that simplify formulas and analyse their graph.

Propagation, failed literals, equivalent literals, subsumption, elimination and rebuilding of
variables; components, neighbours of clauses, Condition 1; fixpoints of the local lemma.
"""
