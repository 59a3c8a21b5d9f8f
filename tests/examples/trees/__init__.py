"""Tests of examples.trees."""
