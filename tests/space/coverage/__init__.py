"""Tests of nelson.space.coverage."""
