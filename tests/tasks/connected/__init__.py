"""Tests of nelson.tasks.connected."""
