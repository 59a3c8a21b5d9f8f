"""Tests of nelson.tasks.arcs."""
