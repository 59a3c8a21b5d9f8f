"""Tests of `nelson.sampling.methods`."""
