"""Tests of nelson.space.clauses."""
