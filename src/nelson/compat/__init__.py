"""The Python modules `pycmsgen` and `pyunigen` once more, over our samplers.

    from nelson.compat.pycmsgen import Solver        # instead of: from pycmsgen import Solver
    from nelson.compat.pyunigen import Sampler

or, for a program that cannot be changed, `nelson.compat.install()` before it imports them. Methods,
arguments, results and errors are those of the originals (pycmsgen 6.1, pyunigen 2.5).
"""

from __future__ import annotations

import sys

from nelson.compat import pycmsgen, pyunigen

__all__ = ["install", "pycmsgen", "pyunigen"]


def install() -> None:
    """From now on `import pycmsgen` and `import pyunigen` find our modules, in this process.

    Our samplers `cmsgen` and `unigen` run the originals in processes of their own.
    """
    sys.modules["pycmsgen"] = pycmsgen
    sys.modules["pyunigen"] = pyunigen
