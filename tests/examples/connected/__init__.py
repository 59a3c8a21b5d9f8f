"""Tests of examples.connected."""
