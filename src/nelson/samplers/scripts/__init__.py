"""What runs in a child process (`nelson.samplers.child`): one plain script a package.

Nothing here imports nelson, and packages are imported inside functions.
"""
