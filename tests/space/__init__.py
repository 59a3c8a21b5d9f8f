"""Tests of nelson.space."""
