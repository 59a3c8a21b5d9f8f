"""Tests of nelson_paper.tasks.orientations."""
