"""Tests of examples.arcs."""
