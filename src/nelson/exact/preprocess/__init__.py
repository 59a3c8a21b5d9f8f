"""Smaller problems with the same law, and the way back.

`preprocess` keeps P_theta(x | C) exactly: it returns a `Preprocessed`, whose `rebuild` turns
samples of the smaller problem into samples of the original one.
"""

from nelson.exact.preprocess.pipeline import STEPS, compile_kernels, preprocess
from nelson.exact.preprocess.result import Completion, Preprocessed, Rebuild, WeightedComponent

__all__ = [
    "STEPS",
    "Completion",
    "Preprocessed",
    "Rebuild",
    "WeightedComponent",
    "compile_kernels",
    "preprocess",
]
