"""`method="auto"`: each rung of its ladder on a formula made for it, and what it says."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.problem import prepare
from nelson.exact.compiled import compiled
from nelson.formula import Formula
from nelson.kernels.core.bits import unpack
from nelson.policy import ChainPolicy, CircuitPolicy, Policy, RejectionPolicy
from nelson.sampling import plan
from nelson.sampling.auto import ladder
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.search import Form
from nelson.sampling.auto.steps import circuit
from nelson.sampling.auto.steps import solver as starts
from nelson.sampling.auto.steps.circuit import BackgroundCompiler, Compilation
from nelson.sampling.auto.steps.coupling import Coupling
from nelson.sampling.auto.steps.resampling import Resampling
from nelson.sampling.auto.steps.solver import SolverChains
from tests.problems import (
    chi_square,
    exact_law,
    example1,
    pigeonhole,
    random_ksat,
    weights,
)
from tests.sampling.auto.decisions import ALPHA, decided, drawn, joined, mixed, needs_d4
from tests.structured import circuits, graphs

# --- each rung --------------------------------------------------------------------------------


def test_extremal_formulas_go_no_further(monkeypatch):
    monkeypatch.setattr("nelson.sampling.auto.search.preprocess", None)  # must not be called
    s = nelson.sample(example1(), None, 1000, seed=1)
    assert (s.info["method"], s.guarantee, s.info["sweeps"]) == ("lovasz", "exact", 0)
    assert s.info["auto"][0]["not taken"] == {}
    named = nelson.sample(example1(), None, 1000, seed=1, method="lovasz")
    assert np.array_equal(s.packed, named.packed)


def test_an_extremal_formula_that_does_not_converge_is_drawn_otherwise():
    theta = -np.log(2.0**20 - 1)  # its probability is not rounded
    s = nelson.sample(Formula([[1, 2]]), [theta, theta], 1000, seed=1)
    assert s.status == "ok"
    assert s.guarantee == "exact"
    assert "did not become valid" in s.info["auto"][0]["not taken"]["extremal"]
    # Half of them each: 5 standard errors of 1000 fair coins.
    assert abs(s.mean()[0] - 0.5) < 5 * np.sqrt(0.25 / 1000)


def test_few_structures_are_listed():
    f = random_ksat(12, 24, 3, seed=3)  # falls apart under single flips
    s = nelson.sample(f, weights(f), 20_000, seed=1)
    assert (s.info["method"], s.guarantee) == ("enumerate", "exact")
    assert chi_square(s.to_numpy(), exact_law(f, weights(f))) > ALPHA
    named = nelson.sample(f, weights(f), 20_000, seed=1, method="enumerate")
    assert np.array_equal(s.packed, named.packed)  # nothing was reduced: the formula as given


@needs_d4
@pytest.mark.process
def test_what_compiles_is_compiled():
    f = random_ksat(18, 18, 5, seed=4)
    policy = Policy(rejection=RejectionPolicy(violated=-1.0))  # else assignments are drawn
    s = nelson.sample(f, weights(f), 20_000, seed=1, policy=policy)
    assert (s.info["method"], s.guarantee) == ("circuit", "exact")
    assert chi_square(s.to_numpy(), exact_law(f, weights(f))) > ALPHA
    assert set(s.info["auto"][0]["not taken"]) == {"extremal", "enumerate"}
    named = nelson.sample(f, weights(f), 20_000, seed=1, method="circuit")
    assert np.array_equal(s.packed, named.packed)


@needs_d4
@pytest.mark.process
def test_gates_stay_where_the_formula_is_narrower_with_them():
    """Sums and comparisons: 0.4 s with the carries; D4 does not finish in 20 s without them.

    Means of 20,000 samples against the exact ones: 5 standard errors for each of 76 inputs, a false
    alarm in 20,000 runs. Fair coins, the law of the inputs without the clauses, are rejected.
    """
    f = circuits.ordered(4, 16, 4)
    s = nelson.sample(f, None, 20_000, seed=1)
    assert (s.info["method"], s.guarantee) == ("circuit", "exact")
    assert not any("gates" in step for step in s.info["preprocessing"])
    bits = s.to_numpy()
    a = bits[:, :64].reshape(-1, 4, 16) @ 2 ** np.arange(16)
    gap = bits[:, 64:76].reshape(-1, 3, 4) @ 2 ** np.arange(4)
    assert (a[:, :-1] + gap <= a[:, 1:]).all()
    mean = compiled(f, Budget.of(60.0)).mean(np.zeros((1, f.n_vars)))[0, :76]
    error = np.sqrt(mean * (1 - mean) / len(s))
    assert (np.abs(s.mean()[:76] - mean) < 5 * error).all()
    assert (np.abs(0.5 - mean) > 5 * error).any()


@needs_d4
@pytest.mark.process
def test_gates_go_where_the_formula_is_narrower_without_them():
    """A random circuit: more than 45 wide with its gates, 40 without."""
    f = circuits.random_circuit(30, 300, 6, seed=1)
    s = nelson.sample(f, None, 100, seed=1)
    assert s.guarantee == "exact" and any("gates" in step for step in s.info["preprocessing"])


@pytest.mark.slow
def test_what_does_not_compile_is_resampled_and_swept(monkeypatch):
    monkeypatch.setattr(circuit, "compiled", None)  # hopeless: it must not even be tried
    f = random_ksat(300, 400, 5, seed=1)
    theta = weights(f)
    s = nelson.sample(f, theta, 1000, seed=1)
    assert (s.info["method"], s.guarantee) == ("lovasz", "diagnosed")
    part = s.info["auto"][0]
    assert set(part["not taken"]) == {"extremal", "enumerate", "circuit", "cftp"}
    assert part["rho"] < 0.3
    assert part["drift"] <= 0.2 and part["agreement"] <= 1 and part["kinds"] >= 8
    assert "kinds of starts" in s.info["why"]
    named = nelson.sample(f, theta, 1000, seed=1, method="lovasz", sweeps=s.info["sweeps"])
    assert np.array_equal(s.packed, named.packed)


def test_what_coupled_chains_draw_is_exact():
    f = random_ksat(300, 150, 5, seed=1)
    decision = decided(f, "circuit", theta=weights(f))
    assert (decision.choice.method, decision.choice.guarantee) == ("cftp", "exact")
    (part,) = decision.choice.parts
    assert part["coupled"] <= 256 and "met within" in part["why"]
    assert all(f.satisfied(drawn(f, decision, 100)))
    s = nelson.sample(f, None, 100, seed=1, method="cftp")
    assert np.array_equal(drawn(f, decided(f, "circuit"), 100), s.to_numpy())


def test_coupled_chains_draw_one_component_of_several():
    f = joined(random_ksat(40, 20, 4, seed=1), mixed())
    decision = decided(f, "enumerate", "circuit")
    assert {"cftp", "lovasz"} <= {group.method for group in decision.groups}
    x = drawn(f, decision, 1000)
    assert len(x) == 1000 and f.satisfied(x).all()


@pytest.mark.process
def test_starts_from_a_solver():
    f = random_ksat(14, 20, 3, seed=5)
    exact = ("enumerate", "circuit", "cftp", "inputs")
    decision = decided(f, *exact, "resampling", theta=np.zeros(14))
    assert decision.choice.method == "cdcl"
    assert set(decision.groups[0].records[0]["not taken"]) == {
        "extremal",
        "enumerate",
        "circuit",
        "cftp",
        "rejection",
        "inputs",
        "resampling",
    }
    x = drawn(f, decision, 3000)
    assert len(x) == 3000
    assert f.satisfied(x).all()
    again = drawn(f, decision, 100)
    assert np.array_equal(x[:100], again)  # sample i depends on the seed and i alone
    assert not np.array_equal(drawn(f, decision, 100, seed=2), again)


def test_sweeps_from_a_solver_s_starts_reach_the_law():
    """One start for all lanes, and sweeps: the law is that of the chain. The twin makes none."""
    f = random_ksat(10, 12, 5, seed=2)
    theta, law = weights(f), exact_law(f, weights(f))
    problem, count = prepare(f), 20_000
    request = pilot_request(theta[None], count, Budget(threads=1))
    start = law[0][:1].astype(bool)

    def after(sweeps: int) -> np.ndarray:
        chains = Chains.given(problem, request, [start])
        chains.sweep_to(sweeps)
        return unpack(chains.words[0], count)

    assert chi_square(after(40), law) > ALPHA
    assert chi_square(after(0), law) < 1e-12


@pytest.mark.process
def test_without_cmsgen_pysat_finds_the_starts(monkeypatch):
    pytest.importorskip("pysat")
    monkeypatch.setattr(starts, "missing_modules", lambda sampler: ["pycmsgen"])
    f = random_ksat(30, 60, 3, seed=2)
    decision = decided(f, "enumerate", "circuit", "resampling")
    assert "PySAT" in decision.choice.why
    x = drawn(f, decision, 200)
    assert f.satisfied(x).all()
    assert len(np.unique(x, axis=0)) > 20
    with pytest.raises(nelson.Unsatisfiable, match="CDCL solver proved"):
        decided(pigeonhole(4), "enumerate", "circuit", "resampling")


# --- no solution, no time -------------------------------------------------------------------------


@pytest.mark.process
def test_unsatisfiable_only_if_proved(monkeypatch):
    for holes in (3, 6):
        with pytest.raises(nelson.Unsatisfiable):
            nelson.sample(pigeonhole(holes), None, 10)
    with pytest.raises(nelson.Unsatisfiable):  # one component of two
        nelson.sample(joined(example1(), pigeonhole(4)), None, 10)
    f = pigeonhole(7)
    monkeypatch.setattr(starts, "find", lambda *a: (np.zeros((0, f.n_vars), bool), "", ""))
    monkeypatch.setattr(circuit, "installed", lambda: True)
    monkeypatch.setattr(Compilation, "promising", lambda self, parts: [])
    with pytest.raises(nelson.Unsatisfiable, match="CaDiCaL"):  # the solver in reserve
        nelson.sample(f, None, 10, seconds=5)
    monkeypatch.setattr(plan, "installed", lambda: False)
    s = nelson.sample(f, None, 10, seconds=5)
    assert s.status == "budget"
    assert len(s) == 0
    assert "found no solution in the time" in s.info["reason"]


@pytest.mark.process
def test_no_time_is_a_budget():
    f = random_ksat(400, 800, 5, seed=1)
    s = nelson.sample(f, None, 64, seconds=0.0, seed=1)
    assert s.status == "budget"
    assert s.info["reason"]
    assert s.guarantee == "heuristic"


# --- said to the user ---------------------------------------------------------------------------


@pytest.mark.process
def test_every_step_not_taken_is_explained():
    ladder = ("extremal", "enumerate", "circuit", "cftp", "rejection", "inputs", "resampling")
    reached = {"lovasz": 6, "enumerate": 1, "circuit": 2, "cftp": 3, "cdcl": 7}
    for f, skip in (
        (random_ksat(12, 24, 3, seed=3), ()),
        (random_ksat(18, 18, 5, seed=4), ()),
        (random_ksat(300, 150, 5, seed=1), ("circuit",)),
        (random_ksat(300, 400, 5, seed=1), ()),
        (random_ksat(14, 20, 3, seed=5), ("enumerate", "circuit", "cftp", "inputs", "resampling")),
    ):
        for part in decided(f, *skip).choice.parts:
            passed = part["not taken"]
            silent = {"inputs"} - set(passed)  # no word of parts without gates
            steps = [step for step in ladder[: reached[part["method"]]] if step not in silent]
            assert list(passed) == steps, part
            assert all(passed.values())


def test_info_prints_the_choice():
    text = str(nelson.report(mixed()))
    assert text.count("auto takes") == 3
    assert "not extremal" in text
    assert "preprocessing" in text
    told = nelson.report(mixed()).to_dict()["choice"]
    assert told["parts"][0]["not taken"]


@needs_d4
@pytest.mark.process
@pytest.mark.parametrize("hopeless", [False, True])
def test_a_compiler_goes_on_while_chains_are_tried(hopeless, monkeypatch):
    """It has no time of its own here, and chains are frozen: the circuit comes late."""
    if hopeless:
        monkeypatch.setattr(Compilation, "promising", lambda self, parts: [])
        monkeypatch.setattr(Form, "hopeless", True)
    monkeypatch.setenv("NELSON_CACHE_BYTES", "0")

    def guarantee(skip: set[str], seconds: float | None = 120.0) -> str:
        f = graphs.random_colouring(20, 40, 4, seed=1)
        end = None if seconds is None else time.monotonic() + seconds
        policy = Policy(circuit=CircuitPolicy(share=0.0)).without("fields", "joint", "enumerate")
        budget = Budget(end, threads=1, seconds=seconds)
        decision = ladder.decide(prepare(f), weights(f)[None], budget, policy.without(*skip))
        return decision.guarantee

    assert guarantee(set()) == "exact"
    assert guarantee(set(), None) == "exact"  # most clauses are implications
    assert not any(thread.name == "compiler" for thread in threading.enumerate())
    assert guarantee({"circuit"}) == "heuristic"  # what chains give


@pytest.mark.slow
def test_chains_end_when_a_circuit_is_there(monkeypatch):
    """The compiler of a formula of implications begins before all other steps."""
    steps_made = []

    class AtOnce(BackgroundCompiler):
        def __init__(self, formula, budget, effort):
            steps_made.append("compile")
            super().__init__(formula, budget, effort)
            self._thread.join()

    class Noted(SolverChains):
        def take(self, search):
            super().take(search)
            steps_made.append("end" if search.decision is None else "cancelled")

    monkeypatch.setattr(Compilation, "promising", lambda self, parts: [])
    monkeypatch.setattr(circuit, "BackgroundCompiler", AtOnce)
    monkeypatch.setattr(Form, "hopeless", True)
    monkeypatch.setattr(Coupling, "take", lambda self, search: steps_made.append("couple"))
    steps = [Noted() if type(step) is SolverChains else step for step in ladder.STEPS]
    monkeypatch.setattr(ladder, "STEPS", steps)
    f = graphs.random_colouring(20, 40, 4, seed=1)
    budget = Budget(time.monotonic() + 120.0, threads=1, seconds=120.0)
    policy = Policy().without("enumerate", "resampling")
    assert ladder.decide(prepare(f), weights(f)[None], budget, policy).guarantee == "exact"
    assert steps_made == ["compile", "couple", "cancelled"]


@pytest.mark.slow
def test_a_pilot_run_that_takes_too_long_is_not_begun():
    policy = Policy(chains=ChainPolicy(large=0, huge=0, pilot_trials=1e9))
    f = random_ksat(400, 500, 5, seed=1)
    part = FormulaPart(np.arange(f.n_total), weights(f)[None], f)
    timed = Resampling().applies(part, Budget(time.monotonic() + 30.0), policy)
    assert timed.guarantee == "heuristic" and "a pilot run would take about" in timed.why
    assert Resampling().applies(part, Budget(), policy).guarantee == "diagnosed"  # no clock
