"""Tests of nelson.log_z."""
