"""Child processes with limits on time and memory, for solvers and compilers that are not ours.

Import `run_child` from `child`. `child_main` is the program of the child and imports nothing of
nelson; its `read` and `write` are the format of the messages.
"""

#: Default limit of a child's address space, in bytes. It stands here because `nelson.budget` needs
#: it, and `child` loads `subprocess` and `tempfile`.
MEMORY = 4 << 30
