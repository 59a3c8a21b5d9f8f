"""Tests of nelson.tasks.orientations."""
