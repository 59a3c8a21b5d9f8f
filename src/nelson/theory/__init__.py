"""What is known about a formula before anything is drawn.

Import criteria and `expected_resamplings` from `local_lemma`, the degrees of the dependency graph
from `clause_graph`.
"""
