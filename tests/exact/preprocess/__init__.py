"""Tests of nelson.exact.preprocess."""
