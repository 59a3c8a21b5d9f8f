"""Tests of nelson.space.tables."""
