"""Tests of `nelson.chains`."""
