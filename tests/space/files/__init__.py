"""Tests of nelson.space.files."""
