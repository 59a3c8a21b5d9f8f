"""Tests of nelson_paper.samplers."""
