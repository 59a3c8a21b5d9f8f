"""Models of other tools as spaces: one file for each tool, and the names of the model are kept.

Each module has a function `fill(space, model, ...)` that adds the fields and the rules of a model
to an empty space. `Space.from_cpmpy(model)` and its sisters call it.
"""
