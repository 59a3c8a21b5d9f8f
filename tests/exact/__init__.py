"""Tests of nelson.exact."""
