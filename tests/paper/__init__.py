"""Tests of nelson_paper."""
