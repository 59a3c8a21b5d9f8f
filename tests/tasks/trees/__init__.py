"""Tests of nelson.tasks.trees."""
