"""What runs in a child process (`nelson.process.child`): one plain script a package.

Nothing here imports nelson, and packages are imported inside functions.
"""
