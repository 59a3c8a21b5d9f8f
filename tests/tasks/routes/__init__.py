"""Tests of nelson.tasks.routes."""
