"""Tests of `nelson.sampling.auto`."""
