"""Smaller problems with the same law, and the way back.

`preprocess` keeps P_theta(x | C) exactly. `eliminate_for_start` keeps only whether there is a
solution.
"""

from nelson.exact.preprocess.pipeline import STEPS, compile_kernels, preprocess
from nelson.exact.preprocess.result import Component, Preprocessed, Rebuild
from nelson.exact.preprocess.start import Start, eliminate_for_start

__all__ = [
    "STEPS",
    "Component",
    "Preprocessed",
    "Rebuild",
    "Start",
    "compile_kernels",
    "eliminate_for_start",
    "preprocess",
]
