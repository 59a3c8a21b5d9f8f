"""`torchrun -m nelson.cluster.train FILE DATA -o model`: the documented name of `nelson.cli.train`.

The command parses options, so it lives in the room of the command line, which this room must not
import.
"""

if __name__ == "__main__":
    from runpy import run_module

    run_module("nelson.cli.train", run_name="__main__", alter_sys=True)
