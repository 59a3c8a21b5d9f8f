"""Tests of nelson_paper.tasks.ksat."""
