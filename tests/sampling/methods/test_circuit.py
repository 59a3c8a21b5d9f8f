"""`circuit`, `kus`, `waps`: the law by chi-square, evidence without compilation, proofs, limits.

Each chi-square test that must accept rejects a right sampler with probability ALPHA; about 40 of
them: 4e-5 in all. Seeds are fixed.
"""

from __future__ import annotations

import _thread
import threading
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.exact.circuit import build
from nelson.exact.circuit.draw import Draws, clauses_of
from nelson.exact.compiled import compiled, why_not
from tests.problems import (
    chi_square,
    exact_law,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    weights,
)

pytest.importorskip("py_d4")

pytestmark = pytest.mark.process  # D4 runs in a child process

ALPHA = 1e-6
DRAWS = 100_000
SEED = 1977
ENCODED = nelson.Formula([[1, 2, -3]], 7).exactly(range(1, 8), 3).xor([1, 3, 5, 7])
FORMULAS = extremal() | non_extremal() | {"encoded": ENCODED}


def again(formula):
    """An equal formula that remembers nothing."""
    return formula.replace()


@pytest.mark.parametrize("method", ["kus", "waps"])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_law(name, method):
    formula = FORMULAS[name]
    theta = 1.5 * weights(formula) if method == "waps" else None
    s = nelson.sample(formula, theta, DRAWS, method=method, seed=SEED)
    p = chi_square(s.to_numpy(), exact_law(formula, theta))
    print(f"{name}: p = {p:.3g}")
    assert p > ALPHA
    assert s.guarantee == "exact" and s.info["method"] == method


def test_a_wrong_law_is_rejected():
    formula = FORMULAS["random 5-SAT"]
    theta = weights(formula)
    x = nelson.sample(formula, theta, DRAWS, method="circuit", seed=SEED).to_numpy()
    assert chi_square(x, exact_law(formula, theta)) > ALPHA
    assert chi_square(x, exact_law(formula, theta + 0.05)) < ALPHA
    # A sampler that never draws what no branch mentions, by its own law.
    x[:, 0] = False
    assert chi_square(x, exact_law(formula, theta)) < ALPHA


def test_means_of_a_large_circuit():
    """35 means of a million draws, each within 5.5 sigma: false alarm 1.3e-6."""
    formula = random_ksat(35, 35, 5, seed=2)
    theta = weights(formula)
    exact = compiled(formula, Budget.of(60.0)).mean(theta[None])[0]
    s = nelson.sample(formula, theta, 1_000_000, method="circuit", seed=SEED)
    sigma = np.sqrt(exact * (1 - exact) / len(s))
    assert (np.abs(s.mean() - exact) < 5.5 * sigma).all()
    biased = nelson.sample(formula, theta, 1_000_000, method="lovasz", sweeps=0, seed=SEED)
    assert (np.abs(biased.mean() - exact) > 5.5 * sigma).any()


def test_evidence_needs_no_new_circuit(compilations, tmp_path, monkeypatch):
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    formula = again(FORMULAS["random 5-SAT"])
    theta = weights(formula)
    options = {"method": "circuit", "seed": SEED}
    nelson.sample(formula, theta, 10, **options)
    states, _ = exact_law(formula)
    for k in range(3):
        given = [int(i + 1) if states[k, i] else -int(i + 1) for i in (0, 3, 7)]
        s = nelson.sample(formula, theta, DRAWS, given=given, **options)
        law = exact_law(formula.given(given), theta)
        assert chi_square(s.to_numpy(), law) > ALPHA
        assert chi_square(s.to_numpy(), exact_law(formula, theta)) < ALPHA
    rows = np.stack([theta, theta])
    rows[1, 2] = np.inf if states[0, 2] else -np.inf
    x = nelson.sample(formula, rows, DRAWS, **options).to_numpy()
    for k in range(2):
        assert chi_square(x[k], exact_law(formula, rows[k])) > ALPHA
    nelson.sample(formula, theta, 10, project=[4, 2], method="waps")
    nelson.sample(formula, None, 10, method="kus")
    compiled(formula).mean(rows)
    assert len(compilations) == 1


def test_projection_is_the_marginal():
    formula = FORMULAS["random 5-SAT"]
    full = nelson.sample(formula, None, 5000, method="kus", seed=SEED)
    part = nelson.sample(formula, None, 5000, method="kus", seed=SEED, project=[7, 2, 9])
    assert part.variables == (7, 2, 9)
    assert np.array_equal(part.to_numpy(), full.to_numpy()[:, [6, 1, 8]])


def test_unsatisfiable_is_proved_by_the_circuit():
    with pytest.raises(nelson.Unsatisfiable, match="solver proved"):
        nelson.sample(pigeonhole(5), None, 10, method="circuit")
    with pytest.raises(nelson.Unsatisfiable):
        compiled(again(pigeonhole(4)))
    # Evidence that no propagation refutes: 3 pigeons in 2 holes, unless x1.
    clauses = [[1, *clause] for clause in pigeonhole(2).clauses()]
    shift = [[1, *(v + (1 if v > 0 else -1) for v in clause[1:])] for clause in clauses]
    formula = nelson.Formula(shift)
    assert nelson.sample(formula, None, 10, method="circuit").to_numpy()[:, 0].all()
    with pytest.raises(nelson.Unsatisfiable, match=r"given \[-1\]"):
        nelson.sample(formula, None, 10, given=[-1], method="circuit")
    theta = np.zeros((1, formula.n_vars))
    theta[0, 0] = -np.inf
    for ask in ("mean", "log_z"):
        with pytest.raises(nelson.Unsatisfiable):
            getattr(compiled(formula), ask)(theta)
    with pytest.raises(nelson.Unsatisfiable):
        compiled(formula).draw(theta, 5, 1)


def test_a_circuit_that_lies_is_caught():
    formula = nelson.Formula([[1, 2], [2, 3]])
    found = compiled(again(nelson.Formula([[1, 2]], n_vars=3)))
    draws = Draws(
        found.circuit, np.zeros((1, 3)), np.arange(3), clauses_of(formula), 1, np.zeros(1)
    )
    with pytest.raises(nelson.NelsonError, match="violates"):
        draws.block(0, 1000)


def test_uniform_only():
    with pytest.raises(nelson.FormulaError, match="kus"):
        nelson.sample(FORMULAS["path"], np.ones(5), 10, method="kus")


# --- limits --------------------------------------------------------------------------------------


def hard():
    """Random 3-SAT that D4 does not compile within a minute."""
    return random_ksat(300, 600, 3, seed=1)


def test_a_compilation_that_takes_too_long_is_a_budget():
    formula = hard()
    s = nelson.sample(formula, None, 100, method="circuit", seconds=1.0)
    assert len(s) == 0 and s.status == "budget"
    assert "D4 stopped" in s.info["reason"] and "solutions exist" in s.info["reason"]
    with pytest.raises(nelson.BudgetExceeded, match="D4 stopped"):
        nelson.sample(formula, None, 100, method="circuit", seconds=0.6, strict=True)


def test_a_failure_is_remembered_until_there_is_more_time(compilations):
    formula = hard()
    assert compiled(formula, Budget.of(0.3)) is None and "stopped" in why_not(formula)
    assert compiled(formula, Budget.of(0.2)) is None and len(compilations) == 1
    assert compiled(formula, Budget.of(0.4)) is None and len(compilations) == 2
    more = replace(Budget.of(0.4), memory=8 << 30)
    assert compiled(formula, more) is None and len(compilations) == 3


def test_where_the_formula_does_not_compile_what_evidence_leaves_may(monkeypatch):
    """The first compilation, of the whole formula, reports at once that its time is up."""
    from pysat.solvers import Solver

    calls, run_child = [], build.run_child

    def first_is_stopped(*args, **options):
        calls.append(args)
        return ([], "stopped") if len(calls) == 1 else run_child(*args, **options)

    monkeypatch.setattr(build, "run_child", first_is_stopped)
    formula = hard()
    with Solver(name="glucose4", bootstrap_with=formula.clauses()) as solver:
        assert solver.solve()
        given = solver.get_model()[:200]
    s = nelson.sample(formula, None, 500, given=given, method="circuit", seconds=240.0)
    assert len(calls) == 2 and s.status == "ok" and formula.satisfied(s.to_numpy()).all()
    assert (s.to_numpy()[:, :200] == (np.array(given) > 0)).all()


def test_a_compiler_is_held_to_its_memory(monkeypatch):
    pytest.importorskip("py_d4")
    monkeypatch.setattr(build, "RESERVED", 0)  # D4 maps 1.8 GiB at once
    found = build.build(FORMULAS["path"], Budget(memory=120 << 20).within(60.0), "d4", cache=False)
    assert found.circuit is None and "memory" in found.why_not
    monkeypatch.undo()
    enough = Budget(memory=512 << 20).within(60.0)
    assert build.build(FORMULAS["path"], enough, "d4", cache=False).circuit is not None


def test_time_ends_a_draw_and_what_is_there_is_whole():
    formula = random_ksat(30, 40, 4, seed=6)
    compiled(formula, Budget.of(60.0))
    s = nelson.sample(
        formula, None, 300_000_000, method="circuit", seconds=0.3, project=[1], seed=1
    )
    assert s.status == "budget" and 0 < len(s) < 300_000_000 and s.guarantee == "exact"


def test_ctrl_c_ends_a_stream():
    formula = random_ksat(30, 40, 4, seed=6)
    compiled(formula, Budget.of(60.0))
    nelson.sample(formula, None, 1000, method="circuit")
    threading.Timer(0.5, _thread.interrupt_main).start()
    parts = list(nelson.stream(formula, None, block=1 << 22, method="circuit", project=[1, 2]))
    assert parts[-1].info["interrupted"] and parts[-1].status == "budget"


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(build.COMPILERS, "d4", ("no_such_module", "D4"))
    formula = hard()  # a narrow formula needs no D4
    assert compiled(formula) is None and "nelson-mrf[samplers]" in why_not(formula)
    with pytest.raises(nelson.FormulaError, match="no compiler"):
        compiled(formula, compiler="c2d")
