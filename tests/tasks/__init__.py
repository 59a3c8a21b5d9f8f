"""Tests of nelson.tasks."""
