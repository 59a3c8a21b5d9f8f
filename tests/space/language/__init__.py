"""Tests of nelson.space.language."""
