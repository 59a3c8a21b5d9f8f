"""Tests of `nelson.sampling.diagnosis`."""
