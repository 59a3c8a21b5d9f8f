"""Tests of nelson.tasks.ksat."""
