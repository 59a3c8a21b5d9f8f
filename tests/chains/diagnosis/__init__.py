"""Tests of `nelson.chains.diagnosis`."""
