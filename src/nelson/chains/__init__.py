"""Chains in the valid space: prepared problems, requests and blocks, moves, and their diagnosis."""
