"""The trial of coupled chains: how many sweeps until the chains of all starts meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import prepare
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.kernels.core.bits import tail_mask
from nelson.policy import DEFAULT, AutoPolicy, CouplingPolicy, Policy
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps import coupling
from nelson.sampling.methods import cftp
from tests.problems import random_ksat, weights

SEED = 17


@pytest.fixture
def looks(monkeypatch):
    """(lanes, sweeps) of each look at a trial."""
    real, made = coupling._Trial.apart_after, []

    def noted(trial, length):
        made.append((trial.lanes, length))
        return real(trial, length)

    monkeypatch.setattr(coupling._Trial, "apart_after", noted)
    return made


def by_coupling(part, **more):
    """The answer of the step, within this number of rounds."""
    policy = replace(DEFAULT, auto=AutoPolicy(**more))
    return coupling.Coupling().applies(part, Budget(threads=1), policy)


@pytest.mark.parametrize("ratio", [1.3, 2.0])
def test_a_trial_of_chains_that_do_not_meet_is_cheap(ratio, looks):
    """32 sweeps of 256 samples, where the diagnosis that follows sweeps 4,096 chains."""
    f = random_ksat(1000, int(1000 * ratio), 5, seed=2)
    part = FormulaPart(np.arange(1000), weights(f)[None], f)
    assert "do not meet" in by_coupling(part)
    assert looks == [(256, 16), (256, 32)]
    assert isinstance(by_coupling(part), Reason) and len(looks) == 2  # kept


def test_a_large_formula_is_looked_at_earlier(looks):
    """Chains that never meet are found out after 8 sweeps of 64 samples."""
    f = random_ksat(400, 800, 4, seed=1)
    part = FormulaPart(np.arange(400), np.zeros((1, 400)), f)
    coupling.Coupling().applies(part, Budget(threads=1), Policy(coupling=CouplingPolicy(large=0)))
    assert looks == [(64, 4), (64, 8)]


def test_a_large_formula_has_as_many_samples_as_the_bound_asks_for(looks):
    """64 where they meet soon; 64 after 64 are the samples of one trial of all of them."""
    f = random_ksat(300, 240, 5, seed=1)
    part = FormulaPart(np.arange(300), np.zeros((1, 300)), f)

    def trial(**rules):
        policy = Policy(coupling=CouplingPolicy(large=0, **rules))
        return coupling.Coupling().applies(part, Budget(threads=1), policy).more["trial"]

    lanes, sweeps = trial()
    assert lanes == 64 and 8 < sweeps <= 68
    lanes, most = trial(far_if_large=0.0, tile=256)
    assert lanes == 256 and most >= sweeps and {size for size, _ in looks} == {64}
    looks.clear()
    rules = CouplingPolicy(first=4, stuck=2.0, stuck_at_once=2.0)
    problem = part.problem.sweeping_all()
    at_once = coupling._meet(problem, part.theta[0], 256, 256, Budget(threads=1), rules)
    assert at_once == (most, "") and {size for size, _ in looks} == {256}


def test_chains_that_meet_late_have_a_second_trial(looks):
    """A draw makes at most 1,024 sweeps: 128 for the first trial, 256 for the second."""
    f = random_ksat(300, 240, 5, seed=1)
    part = FormulaPart(np.arange(300), np.zeros((1, 300)), f)
    verdict = by_coupling(part)
    sweeps = verdict.more["coupled"]
    assert verdict.more["trial"] == (256, sweeps)
    assert {lanes for lanes, _ in looks} == {256} and 8 < sweeps <= 32
    looks.clear()
    rounds = 1 << (4 * sweeps - 1).bit_length()  # the trial may make more, but less than double
    assert isinstance(by_coupling(part, max_rounds=rounds), StepVerdict)
    assert {lanes for lanes, _ in looks} == {256, 1024}


def test_each_context_has_its_own_trial_and_the_budget_bounds_it():
    f = random_ksat(100, 40, 4, seed=2)
    rows = np.stack([weights(f, k) for k in range(3)])
    assert isinstance(by_coupling(FormulaPart(np.arange(100), rows, f)), StepVerdict)
    part = FormulaPart(np.arange(100), rows, f)
    assert by_coupling(part, max_rounds=8) == "coupled chains did not meet within 2 sweeps"
    rows[2] = 0.0
    for clause in f.clauses():  # coins that make most literals false, so that clauses force
        rows[2, np.abs(clause) - 1] -= 3.0 * np.sign(clause)
    assert isinstance(by_coupling(FormulaPart(np.arange(100), rows, f)), Reason)


def test_a_trial_on_a_formula_without_solutions_takes_nothing():
    f = Formula([[1, 2], [1, -2], [-1, 2], [-1, -2], [3, 4], [4, 5]], n_vars=5)
    part = FormulaPart(np.arange(5), np.zeros((1, 5)), f)
    assert isinstance(by_coupling(part), Reason)
    with pytest.raises(nelson.Unsatisfiable):
        nelson.sample(f, None, 10, method="cftp")


def test_a_trial_that_goes_on_is_one_run():
    f = random_ksat(60, 48, 4, seed=3)
    problem = prepare(f).sweeping_all()
    whole = coupling._Trial(problem, weights(f), 256)
    assert whole.apart_after(256) == 0
    pieces = coupling._Trial(problem, weights(f), 256)
    shares = [pieces.apart_after(length) for length in (2, 4, 8, 256)]
    assert shares[0] > shares[1] > shares[2] > shares[3] == 0
    assert pieces.made == whole.made > 8
    assert np.array_equal(pieces.space.bounds, whole.space.bounds)


def backwards(problem, theta, seed: int) -> int:
    """The shortest run from the past after which 64 samples are determined."""
    request = pilot_request(theta[None], 64, Budget(threads=1), seed=seed)
    least, most = 1, 1024
    while least < most:
        length = (least + most) // 2
        asked = replace(request, max_rounds=1024, columns=np.arange(1))
        block = next(cftp.blocks(problem, asked, first=length))
        assert np.array_equal(block.filled[0], tail_mask(64))
        least, most = (least, length) if block.rounds == length else (length + 1, most)
    return least


@pytest.mark.slow
def test_trials_take_as_many_sweeps_as_runs_from_the_past(monkeypatch):
    """Both numbers have the same law. Means over 300 seeds each differ by less than 4 standard
    errors, which a right trial exceeds once in 16,000 times. The twin: trials of single samples.
    """
    f = random_ksat(40, 32, 4, seed=5)
    theta, problem = weights(f), prepare(f)
    past = np.array([backwards(problem, theta, SEED + k) for k in range(300)])

    def forwards(lanes: int) -> np.ndarray:
        made = []
        for k in range(300):
            seed = 10_000 + SEED + k
            monkeypatch.setattr(
                coupling,
                "pilot_request",
                lambda *args, seed=seed: pilot_request(*args, seed=seed),
            )
            trial = coupling._Trial(problem.sweeping_all(), theta, lanes)
            assert trial.apart_after(1024) == 0
            made.append(trial.made)
        return np.array(made)

    def errors(made: np.ndarray) -> float:
        return abs(made.mean() - past.mean()) / np.sqrt((made.var() + past.var()) / 300)

    assert errors(forwards(64)) < 4
    assert errors(forwards(1)) > 4


def test_the_first_run_of_a_draw_follows_the_trial():
    """The draw of one tile then makes one run; it has the samples of a draw without a trial."""
    f = random_ksat(300, 240, 5, seed=4)
    theta = weights(f)
    s = nelson.sample(f, theta, 1000, seed=SEED)
    (part,) = s.info["auto"]
    assert part["method"] == "cftp" and s.info["rounds"] == part["coupled"] * 5 // 4
    alone = nelson.sample(f.replace(), theta, 1000, seed=SEED, method="cftp")
    assert np.array_equal(s.packed, alone.packed)
