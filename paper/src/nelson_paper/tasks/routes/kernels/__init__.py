"""Compiled loops that draw and improve routes."""
