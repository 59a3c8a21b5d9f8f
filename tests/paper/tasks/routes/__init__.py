"""Tests of nelson_paper.tasks.routes."""
