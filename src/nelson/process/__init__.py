"""Child processes with limits on seconds and memory, for code that is not ours.

Import `run_child` from `child`; `child_main` is the program that runs in the child.
"""
