"""Tests of nelson.exact.circuit."""
