"""The list of steps: one shape for all, and a new one touches its file and the list only."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import prepare
from nelson.exact.routes import Reason
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto import groups, ladder
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps.step import Step
from tests.problems import chi_square, exact_law, example1, random_ksat, weights
from tests.sampling import implications
from tests.sampling.auto.decisions import ALPHA, joined, mixed

#: Log-odds of 2^-20, a probability that is not rounded.
RARE = -float(np.log(2.0**20 - 1))


class Implications(Step):
    """The step of a sampler with a limited domain needs no more than these lines."""

    name = "implications"
    sampler = implications.SAMPLER


@pytest.fixture
def with_toy(monkeypatch):
    """One line in the list."""
    early = [step for step in ladder.STEPS if step.early]
    others = [step for step in ladder.STEPS if not step.early]
    monkeypatch.setattr(ladder, "STEPS", [*early, Implications(), *others])


def test_a_new_step_takes_its_component(with_toy):
    """Chi-square of 20,000 samples, rate ALPHA. The twin has other weights."""
    chain = nelson.Formula([[-v, v + 1] for v in range(1, 70)])
    small = nelson.Formula([[1, 2, 3], [2, -3], [-1, 3]])
    f = joined(chain, small)
    theta = np.concatenate([np.where(np.arange(70) % 2, 0.3, -0.4), weights(small)])
    policy = Policy().without("extremal")
    s = nelson.sample(f, theta, 20_000, seed=1, policy=policy)
    assert (s.guarantee, s.status, len(s)) == ("exact", "ok", 20_000)
    taken = {part["method"]: part["variables"] for part in s.info["auto"]}
    assert taken["implications"] == 70  # of 73; one more is fixed
    x = s.to_numpy()
    ones = x[:, :70].sum(1)
    tails = np.concatenate([np.cumsum(theta[:70][::-1])[::-1], [0.0]])[::-1]
    law = np.exp(tails) / np.exp(tails).sum()  # of the number of true variables
    error = np.sqrt(law * (1 - law) / len(x))
    shares = np.bincount(ones, minlength=71) / len(x)
    assert (np.abs(shares - law) < 5 * error + 5 / len(x)).all()  # false alarm: 71 * 6e-7
    assert (np.abs(shares - law[::-1]) > 5 * error + 5 / len(x)).any()
    assert chi_square(x[:, 70:], exact_law(small, theta[70:])) > ALPHA


@pytest.mark.slow
def test_the_new_step_says_why_not(with_toy):
    f = random_ksat(70, 60, 3, seed=3)
    s = nelson.sample(f, None, 64, seed=1, policy=Policy().without("rejection"))
    assert s.info["auto"][0]["not taken"]["implications"] == "no chain of implications"
    policy = Policy().without("rejection", "implications")
    s = nelson.sample(f, None, 64, seed=1, policy=policy)
    assert s.info["auto"][0]["not taken"]["implications"] == "left out"


class Forgetful(Step):
    """A step that drops the parts it looks at."""

    name = "forgetful"
    sampler = Implications.sampler

    def take(self, search):
        search.form.left = []


def test_a_part_that_belongs_to_no_group_is_an_error(monkeypatch):
    """Never "0 samples, heuristic"."""
    steps = [*(step for step in ladder.STEPS if step.early), Forgetful()]
    monkeypatch.setattr(ladder, "STEPS", steps)
    with pytest.raises(AssertionError, match="belong to no group"):
        nelson.sample(mixed(), None, 10, policy=Policy().without("enumerate"))


def test_a_part_that_two_steps_take_is_an_error():
    search_form = ladder.StepSearch(
        prepare(f := mixed()),
        FormulaPart(np.arange(f.n_total), np.zeros((1, f.n_vars)), f),
        Budget(threads=1),
        DEFAULT,
        [step for step in ladder.STEPS if step.early],
    ).form
    assert len(search_form.decision().groups) > 1
    doubled = [*search_form.taken, search_form.taken[0]]
    with pytest.raises(AssertionError, match="to several"):
        groups.decision_of(search_form.whole, doubled, search_form.reduced)


def test_without_any_step_for_a_part_the_call_says_so():
    every = [step.name for step in ladder.STEPS]
    with pytest.raises(nelson.NelsonError, match="left out by the policy"):
        nelson.sample(random_ksat(20, 30, 3, seed=1), None, 10, policy=Policy().without(*every))


@pytest.mark.parametrize("step", ladder.STEPS, ids=lambda step: type(step).__name__)
def test_every_step_has_the_one_shape(step):
    """A name that a policy may leave out, a sampler, and an answer that is one of two things."""
    assert step.name and step.sampler.name
    formula = random_ksat(12, 12, 3, seed=2)
    part = FormulaPart(np.arange(12), np.zeros((1, 12)), formula)
    try:
        answer = step.applies(part, Budget(threads=1), DEFAULT)
    except NotImplementedError:
        assert type(step).take is not Step.take  # it looks at all parts at once
    else:
        assert isinstance(answer, (StepVerdict, Reason))


# --- the trial on an extremal formula is the first tile of the draw -------------------------------


@pytest.fixture
def tiles(monkeypatch):
    """The tiles that the engine draws, call by call."""
    from nelson.chains import engine

    made, run = [], engine._run

    def counted(kernel, width, problem, table, job, result, request):
        made.append(len(job.row))
        return run(kernel, width, problem, table, job, result, request)

    monkeypatch.setattr(engine, "_run", counted)
    return made


@pytest.mark.parametrize("n", [100, 5000])
def test_an_extremal_formula_is_drawn_once(n, tiles):
    """As many tiles as its method needs by itself. The twin: what fails the trial takes more."""
    named = nelson.sample(example1(), None, n, seed=1, method="lovasz")
    alone = list(tiles)
    tiles.clear()
    s = nelson.sample(example1(), None, n, seed=1)
    assert tiles == alone and len(tiles) == 1
    assert np.array_equal(s.packed, named.packed)
    tiles.clear()
    list(nelson.stream(example1(), None, n, seed=1, block=1024))
    assert len(tiles) == -(-n // 1024)
    tiles.clear()
    slow = nelson.sample(nelson.Formula([[1, 2]]), [RARE, RARE], n, seed=1)
    assert slow.status == "ok" and slow.info["method"] != "lovasz" and tiles


def test_a_failed_trial_ends_after_its_first_tile(monkeypatch):
    """The other tiles of a large draw are not even begun."""
    from nelson.chains import engine

    rounds, run = [], engine._run
    monkeypatch.setattr(engine, "_SMALL", 0)

    def counted(kernel, width, problem, table, job, result, request):
        answer = run(kernel, width, problem, table, job, result, request)
        rounds.append(int((result.rounds != engine.cpu.STOPPED).sum()))
        return answer

    monkeypatch.setattr(engine, "_run", counted)
    f = nelson.Formula([[1, 2]])
    s = nelson.sample(f, [RARE, RARE], 20_000, seed=1)
    assert s.guarantee == "exact" and s.info["method"] != "lovasz" and rounds[0] == 1


def test_a_trial_that_fails_for_any_seed_is_not_made_again(tiles):
    """The second call makes fewer draws and has the samples of a first call. The twin: a trial in
    which most lanes became valid is made again, since another seed may pass it.
    """
    f, theta = nelson.Formula([[1, 2]]), [RARE, RARE]
    nelson.sample(f, theta, 1000, seed=1)
    first = len(tiles)
    tiles.clear()
    again = nelson.sample(f, theta, 1000, seed=2)
    assert len(tiles) < first and again.guarantee == "exact"
    fresh = nelson.sample(nelson.Formula([[1, 2]]), theta, 1000, seed=2)
    assert np.array_equal(again.packed, fresh.packed)

    near = nelson.Formula([[1, 2]])
    s = nelson.sample(near, [-0.9, -0.9], 1000, seed=1, max_rounds=3)  # 12% are open then
    assert s.guarantee == "exact" and s.info["method"] != "lovasz"
    assert nelson.plan(near, [-0.9, -0.9], max_rounds=3).method == "lovasz"
    assert nelson.plan(f, theta).method != "lovasz"


def test_contexts_of_an_extremal_formula_fail_together():
    """One slow context is enough; the stream and the kept plan draw otherwise, too."""
    f = nelson.Formula([[1, 2]])
    rows = np.array([[0.0, 0.0], [RARE, RARE]])
    s = nelson.sample(f, rows, 1000, seed=1)
    assert (s.status, s.guarantee) == ("ok", "exact") and s.info["method"] != "lovasz"
    plan = nelson.plan(f, rows[1])
    for _ in range(2):
        assert len(plan.sample(1000, seed=1)) == 1000
    assert sum(len(block) for block in plan.stream(1000, block=128, seed=1)) == 1000
    assert len(plan.sample(2, seed=1, unique=True)) == 2


def test_large_weights_on_a_small_extremal_formula_stay_exact():
    """Resampling rounds probabilities to multiples of 2^-32: rare values leave P by more than the
    word allows. A twin without the other exact steps shows it.
    """
    formula = nelson.Formula([[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]])
    theta = np.random.default_rng(0).normal(size=7) * 12
    samples = nelson.sample(formula, theta, 20_000, seed=0)
    assert formula.is_extremal and samples.guarantee == "exact" and samples.tv_bound < 1e-12
    x = samples.to_numpy()
    p = nelson.marginals(formula, theta).mean
    # 5 sigma for each of seven variables: a false alarm in 1 of 200,000 runs.
    assert (np.abs(x.mean(0) - p) <= 5 * np.sqrt(p * (1 - p) / len(x)) + 1e-9).all()
    policy = nelson.Policy().without("enumerate", "circuit")
    assert nelson.sample(formula, theta, 100, seed=0, policy=policy).guarantee != "exact"
    ordinary = nelson.sample(formula, theta / 12, 100, seed=0)
    assert ordinary.guarantee == "exact" and ordinary.info["method"] == "lovasz"
