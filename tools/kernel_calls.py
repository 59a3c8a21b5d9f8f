"""Every kernel, called as the library calls it: what `tools/build_kernels.py` compiles."""

from __future__ import annotations

import functools
import importlib
import io
import pkgutil
from collections.abc import Callable, Iterator

import numpy as np

import nelson
import nelson.kernels
from nelson.chains.moves.hubs import fitted, mixture
from nelson.exact.circuit.decisions import NnfCircuit, decisions_of
from nelson.exact.preprocess import compile_kernels as compile_preprocessing
from nelson.formula.extremal import occurrences
from nelson.io.sample_files import TextWriter
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.cpu import exchange, hubs
from nelson.kernels.cpu.packed_samples import dot, pair_counts
from nelson.kernels.cpu.rows import from_rows, to_rows
from nelson.kernels.reduce import graph
from nelson.sampling import auto
from nelson.sampling.auto.ladder import STEPS
from nelson.sampling.methods import gibbs, lovasz
from nelson.sampling.registry import missing_modules

#: Two fields of three values each, and a clause between them: all kinds of moves apply.
FIELDS = [[1, 2, 3], [-1, -2], [-1, -3], [-2, -3], [4, 5, 6], [-4, -5], [-4, -6], [-5, -6]]
#: Samples of a draw: they need tiles of one, four and sixteen words.
COUNTS = 1, 200, 2000


def _circuit() -> None:
    """A circuit of two variables in D4's format, x1 and (x2 or not x2): read, and its means."""
    circuit = NnfCircuit.parse(b"o 1 0\nt 2 0\n1 2 1 2 0\n1 2 1 -2 0\n")
    circuit.log_value(np.log(np.full((2, 2), 0.5)))
    decisions = decisions_of(circuit, np.arange(2))
    assert decisions is not None
    decisions.solve(np.zeros((1, 2)), means=True)


def _moments(formula: nelson.Formula, theta: np.ndarray) -> None:
    samples = nelson.sample(formula, theta, 64, seed=0)
    pair_counts(samples.packed)
    dot(samples.packed, 64, theta)


def _hubs() -> None:
    """Proposals of jumps, and their probabilities."""
    clauses = [np.array([1, 2])]
    trees = mixture([fitted(np.eye(3, dtype=bool))], np.arange(3), clauses)
    keys, x = np.zeros(1, np.uint64), np.zeros((64, 3), np.uint8)
    hubs.draw(trees, np.zeros(64, np.int64), keys, keys, 0, x)
    hubs.score(trees, x, np.empty((64, 1)), np.empty((64, 1), np.int64))


def _exchange() -> None:
    one = np.zeros(1, np.int64)
    two = np.array([0, 1])
    rows = exchange.Rows(two, one, one + 1, one, one + 1, one - 1, two, one, one + 1)
    random, chosen = np.full((1, 1, 2 * exchange.FLIPS), 0.5), np.zeros(exchange.FLIPS, np.int64)
    x, sums = np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.int64)
    exchange.exchange(rows, x, sums, np.zeros((1, 1)), random, np.ones((1, 1), np.int64), chosen)


def _extremal(formula: nelson.Formula) -> None:
    """The search for clauses that break Condition 1, among those of a hub."""
    literals, offsets, n = formula.literals, formula.offsets, formula.n_vars
    start, clauses = occurrences(literals, offsets, n)
    most = 4
    scratch = np.zeros((2, n), np.int32), np.empty(4 * most, np.int32), np.empty(most, np.int32)
    mark, held = np.zeros(n, np.int8), np.empty(128, np.int64)
    code = np.flatnonzero(np.ones(1))[0]
    graph.search_hub(literals, offsets, start, clauses, code, np.int32(1), mark, *scratch, held)
    graph.best_split(literals, offsets, start, code, scratch[2], 1, scratch[0])


def steps() -> Iterator[tuple[str, Callable[[], object]]]:
    """(what is called, a function that calls it)"""
    for module in pkgutil.walk_packages(nelson.kernels.__path__, "nelson.kernels."):
        if not {"cuda", "built"} & set(module.name.split(".")):
            importlib.import_module(module.name)
    formula = nelson.Formula([*FIELDS, [-1, -4]])
    theta, x = np.linspace(-0.5, 0.5, 6), np.zeros((3, 2), bool)

    def draw(**how: object) -> None:
        for n in COUNTS:
            nelson.sample(formula, theta, n, seed=0, **how)  # type: ignore[arg-type]

    yield "preprocessing", compile_preprocessing
    yield "packed samples", lambda: unpack(pack(x), len(x))
    yield "samples as text", lambda: TextWriter(io.BytesIO(), [1, 2]).write(pack(x), len(x))
    # The samplers of `auto`; moser-tardos and prs have the kernels of lovasz.
    for sampler in dict.fromkeys([*(s.sampler for s in STEPS if s.draws_whole), gibbs.SAMPLER]):
        if not missing_modules(sampler):
            yield sampler.name, functools.partial(draw, method=sampler.name)
    yield "circuits", _circuit
    yield "means and counts", lambda: _moments(formula, theta)
    yield "report", lambda: nelson.report(nelson.Formula([[1, 2], [-1, 3]]))
    yield "samples as columns", lambda: from_rows(to_rows(pack(x), len(x)), x.shape[1])
    yield "sweeps of fields", lambda: draw(method=lovasz.SAMPLER.name, moves="fields", sweeps=1)
    yield "joint moves", lambda: draw(method=lovasz.SAMPLER.name, moves="joint", sweeps=1)
    yield "hubs", _hubs
    yield "exchange", _exchange
    yield "extremal", lambda: _extremal(formula)
    yield "auto", lambda: [auto.ready(n, None) for n in COUNTS]
