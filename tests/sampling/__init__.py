"""Tests of `nelson.sampling`."""
