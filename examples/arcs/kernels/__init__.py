"""Compiled loops of cycle and cluster popping."""
