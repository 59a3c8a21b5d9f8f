"""Tests of nelson.exact.projection."""
