"""Spaces from files and from models of other tools: one file for each, and names are kept.

Each module has a function `fill(space, model, ...)` that adds fields and rules to an empty space.
`Space.load` and the constructors `Space.from_toml`, `from_uvl`, `from_dimacs`, `from_cpmpy` and
`from_configspace` call it.
"""
