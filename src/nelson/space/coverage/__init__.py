"""Combinatorial testing: which combinations of values occur, and tables that have them all."""
