"""Expressions over named fields: what they are, how they print, parse and evaluate."""
