"""One contract for every sampler of the registry: validity, seeds, evidence, projection, budgets,
UNSAT, tails, contexts, streams; and, by what each promises, its law.

The tests iterate the registry itself, so that a new sampler is held to all of this by its one
registry line. Those whose package is not installed are skipped.

Each accepting test of a law rejects a right sampler with probability ALPHA; fewer than 200 of them:
2e-4 in all. Seeds are fixed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import nelson
from nelson import samplers
from nelson.formula.checks import evidence_of
from nelson.sampling import foreign
from nelson.sampling.problem import prepare
from nelson.sampling.registry import get, missing_modules
from tests import ROOT
from tests.problems import (
    chi_square,
    complete_edges,
    exact_law,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    sink_free,
    state_codes,
    weights,
)

ALPHA = 1e-6
SEED = 7
NAMES = nelson.samplers()
DOCS = ROOT / "docs" / "samplers.md"
#: One parity over visible variables (auxiliary variables behind it), a unit, a free variable.
MIXED = nelson.Formula([[1, 2], [-2, 3, 4], [9], [-9, -3, 8]], n_vars=10).xor([1, 2, 3, 4, 5, 6])


@pytest.fixture(params=NAMES)
def name(request):
    missing = missing_modules(get(request.param))
    if missing:
        pytest.skip(f"{request.param} needs {', '.join(missing)}")
    return request.param


def theta_for(name, formula, seed=0):
    return weights(formula, seed) if get(name).weighted else None


def draw(name, formula, theta=None, n=65, **options):
    return nelson.sample(formula, theta, n, method=name, **{"seed": SEED, **options})


def assert_good(s, formula, n=None):
    """Valid, and not a bit behind the last sample."""
    assert s.to_numpy().shape[-2] == len(s) and (n is None or len(s) == n), s.info.get("reason")
    assert formula.satisfied(s.to_numpy()).all()
    tail = s.packed[..., -1:, :] >> np.uint64(len(s) % 64)
    assert len(s) % 64 == 0 or not tail.any()


# --- what it says of itself ---------------------------------------------------------------------


@pytest.mark.parametrize("key", NAMES)
def test_declaration(key):
    sampler = get(key)
    assert sampler.name == key
    assert sampler.summary and sampler.citation and sampler.promise
    assert (sampler.needs is None) == (not sampler.modules)
    for formula in (*extremal().values(), *non_extremal().values()):
        assert sampler.guarantee(prepare(formula), 0) in samplers.GUARANTEES
    assert not sampler.may_be_invalid or sampler.guarantee(prepare(formula), 9) == "heuristic"


def test_the_table_holds_every_sampler():
    rows = nelson.sampling.registry.describe()
    assert [row.name for row in rows] == nelson.samplers()
    assert {row.name for row in rows if not row.weighted} >= {"unigen"}
    assert all(row.installed for row in rows if row.needs is None)


def test_docs_hold_the_same_table():
    """docs/samplers.md, between its two marks; `python tests/test_samplers.py` writes it."""
    assert table() in DOCS.read_text()


def table() -> str:
    lines = ["| method | weights | guarantee | needs | citation |", "|---|---|---|---|---|"]
    for row in nelson.sampling.registry.describe():
        needs = f"`nelson-mrf[{row.needs}]`" if row.needs else ""
        kind = "any" if row.weighted else "uniform only"
        lines.append(f"| `{row.name}` | {kind} | {row.guarantee} | {needs} | {row.citation} |")
    return "\n".join(lines) + "\n"


def test_the_docs_name_no_sampler_that_is_not_there():
    entries = re.findall(r"^\*\*(`.*?`)\*\*", DOCS.read_text(), re.MULTILINE)
    named = [name.strip("`") for entry in entries for name in entry.split(", ")]
    assert len(named) == len(set(named)) >= 8 and set(named) <= set(NAMES)


def test_the_command_prints_it():
    def said(*arguments):
        command = [sys.executable, "-m", "nelson.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert [line.split()[0] for line in said("samplers").splitlines()] == ["name", *NAMES]
    rows = json.loads(said("samplers", "--json"))
    assert rows == [row._asdict() for row in nelson.sampling.registry.describe()]
    assert all(row["citation"] in said("samplers", "--long") for row in rows[:2])
    assert "nelson samplers --json |" in said("samplers", "--help")


# --- what it draws ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["complete4", "path", "mixed"])
def test_valid_with_tails(name, problem):
    formula = {**extremal(), **non_extremal(), "mixed": MIXED}[problem]
    for n in (1, 65):
        s = draw(name, formula, theta_for(name, formula), n)
        assert_good(s, formula, n)
        assert s.status == "ok" and s.info["method"] == name
        assert s.guarantee in samplers.GUARANTEES


def test_seeds(name):
    formula = random_ksat(20, 30, 4, 1)
    first, again, other = (draw(name, formula, n=40, seed=seed) for seed in (1, 1, 2))
    assert_good(first, formula, 40)
    assert np.array_equal(first.packed, again.packed)
    assert not np.array_equal(first.packed, other.packed)


def test_given_and_project(name):
    formula = sink_free(complete_edges(4))
    theta = theta_for(name, formula)
    full = draw(name, formula, theta, 70, given=[2, -5])
    assert_good(full, formula, 70)
    x = full.to_numpy()
    assert x[:, 1].all() and not x[:, 4].any() and 0 < x[:, 0].mean() < 1
    s = draw(name, formula, theta, 70, given={2: True, 5: False}, project=[5, 1, 2])
    assert s.variables == (5, 1, 2) and np.array_equal(s.to_numpy(), x[:, [4, 0, 1]])
    with pytest.raises(nelson.Unsatisfiable):
        draw(name, formula, given=[2, -2])


def test_infinite_weights_are_evidence_for_uniform_samplers_too(name):
    theta = np.zeros(6)
    theta[[1, 4]] = np.inf, -np.inf
    x = draw(name, sink_free(complete_edges(4)), theta, 20).to_numpy()
    assert len(x) == 20 and x[:, 1].all() and not x[:, 4].any()


def test_contexts(name):
    formula = sink_free(complete_edges(4))
    rows = np.zeros((3, 6))
    if get(name).weighted:
        rows[:2] = weights(formula, 1), weights(formula, 2)
    rows[2, 3] = np.inf  # another evidence: another problem
    s = draw(name, formula, rows, 65)
    assert s.to_numpy().shape == (3, 65, 6) and s.status == "ok"
    assert_good(s, formula, 65)
    assert s.to_numpy()[2, :, 3].all()
    assert not np.array_equal(s.packed[0], s.packed[1])  # each context has its own randomness
    again = draw(name, formula, rows, 65)
    assert np.array_equal(s.packed, again.packed)


def test_nothing_to_draw(name):
    assert draw(name, nelson.Formula([], n_vars=0), n=5).to_numpy().shape == (5, 0)
    s = draw(name, nelson.Formula([], n_vars=3), [0, np.inf, -np.inf], 10)
    assert s.mean()[1:].tolist() == [1.0, 0.0] and len(s) == 10
    fixed = draw(name, nelson.Formula([[1], [-1, -2]], n_vars=2), n=3)
    assert fixed.to_numpy().tolist() == [[True, False]] * 3
    empty = draw(name, sink_free(complete_edges(4)), n=0)
    assert len(empty) == 0 and empty.status == "ok"


def test_unsatisfiable_is_proved(name):
    for formula in (pigeonhole(3), nelson.Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]])):
        with pytest.raises(nelson.Unsatisfiable):
            draw(name, formula, n=10)
    with pytest.raises(nelson.Unsatisfiable):
        draw(name, nelson.Formula([[1], [-1]]), n=10)
    with pytest.raises(nelson.Unsatisfiable):
        list(nelson.stream(pigeonhole(3), None, 100, block=64, method=name, seed=1))


def test_a_budget_ends_it_with_what_is_there(name):
    formula = random_ksat(60, 120, 4, 3)
    s = draw(name, formula, n=3_000_000, seconds=0.4, project=[1, 2])
    assert (s.status == "ok") == (len(s) == 3_000_000)
    assert s.status == "ok" or s.info["reason"]
    s = draw(name, formula, n=64, seconds=0.0)
    assert_good(s, formula)
    assert s.status == "ok" or s.info["reason"]


def test_a_timeout_is_not_called_unsatisfiable(name, monkeypatch):
    from nelson.exact import solver

    monkeypatch.setattr(solver, "satisfiable", lambda *args, **options: None)
    hard = random_ksat(200, 820, 3, 1)
    s = draw(name, hard, n=10, seconds=0.0)
    assert len(s) == 0 and s.status == "budget" and s.info["reason"]
    with pytest.raises(nelson.BudgetExceeded, match="0 of 10 samples"):
        draw(name, hard, n=10, seconds=0.0, strict=True)


def test_streams(name):
    formula = random_ksat(12, 14, 4, 1)
    first, again = (
        [b.to_numpy() for b in nelson.stream(formula, None, 150, block=64, method=name, seed=3)]
        for _ in range(2)
    )
    assert [len(block) for block in first] == [64, 64, 22]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])
    assert formula.satisfied(np.concatenate(first)).all()
    endless = nelson.stream(formula, None, block=64, method=name, seed=3)
    assert np.array_equal(next(endless).to_numpy(), first[0])
    assert np.array_equal(next(endless).to_numpy(), first[1])


def test_unique(name):
    formula = sink_free(complete_edges(4))  # 32 structures
    s = draw(name, formula, n=20, unique=True)
    assert len(np.unique(s.to_numpy(), axis=0)) == len(s) == 20
    s = draw(name, nelson.Formula([[1, 2], [-1, 3]]), n=50, unique=True)
    assert len(np.unique(s.to_numpy(), axis=0)) == len(s) == 4 and s.info["exhausted"]


def test_weights_or_an_error(name):
    formula = nelson.Formula([[1, 2, 3]])
    theta = [3.0, -3.0, 0.0]
    if get(name).weighted:
        x = draw(name, formula, theta, 200).to_numpy()
        assert x[:, 0].mean() > 0.5 > x[:, 1].mean()
    else:
        with pytest.raises(nelson.FormulaError, match=f"uniform sampler '{name}'.*lovasz"):
            draw(name, formula, theta)


def test_sweeps_or_an_error(name):
    formula = non_extremal()["path"]
    if get(name).sweeps is None:
        with pytest.raises(nelson.FormulaError, match=r"sweeps = 3 .*lovasz"):
            draw(name, formula, sweeps=3)
    else:
        assert draw(name, formula, sweeps=3).info["sweeps"] == 3


# --- its law ------------------------------------------------------------------------------------

LAWS = {
    "complete4": extremal()["complete4"],
    "free variable": extremal()["free variable"],
    "path": non_extremal()["path"],
    "random 3-SAT": non_extremal()["random 3-SAT"],
    "mixed": MIXED,
}


def claims(name, worth):
    """(formula, theta) for the problems where a sampler claims `worth`."""
    for problem, formula in LAWS.items():
        if get(name).guarantee(prepare(formula), 0) == worth:
            for theta in (None, weights(formula))[: 1 + get(name).weighted]:
                print(f"{name}, {problem}, {'uniform' if theta is None else 'weighted'}", end=": ")
                yield formula, theta


def test_what_claims_to_be_exact_is(name):
    """And the twin: the same samples against weights that are off by 0.2 each are rejected."""
    for formula, theta in claims(name, "exact"):
        s = draw(name, formula, theta, 20_000)
        p = chi_square(s.to_numpy(), exact_law(formula, theta))
        print(f"p = {p:.3g}")
        assert s.guarantee == "exact" and len(s) == 20_000
        assert p > ALPHA
        off = np.full(formula.n_vars, 0.2) + (0 if theta is None else theta)
        assert chi_square(s.to_numpy(), exact_law(formula, off)) < ALPHA


def within_factor(s, law, epsilon, sigmas=6):
    """Is every state's frequency within a factor 1 + epsilon of its probability, up to noise? The
    band is 6 sigma of a binomial: a false alarm a state has probability below 1e-8."""
    states, p = law
    place = {code: i for i, code in enumerate(state_codes(states))}
    count = np.zeros(len(p))
    for code in state_codes(s.to_numpy()):
        count[place[code]] += 1
    high, low = np.minimum(1, p * (1 + epsilon)), p / (1 + epsilon)
    m = len(s)
    above = count <= m * high + sigmas * np.sqrt(m * high * (1 - high) + 1)
    below = count >= m * low - sigmas * np.sqrt(m * low * (1 - low) + 1)
    return bool((above & below).all())


def test_what_claims_to_be_approximate_is(name):
    for formula, theta in claims(name, "approximate"):
        s = draw(name, formula, theta, 1000)
        assert s.guarantee == "approximate" and len(s) == 1000
        assert within_factor(s, exact_law(formula, theta), s.info["epsilon"])


def test_and_one_that_is_too_far_off_is_not():
    formula = LAWS["complete4"]
    s = draw("enumerate", formula, np.full(6, 1.0), 2000)
    assert within_factor(s, exact_law(formula, np.full(6, 1.0)), 0.0)
    assert not within_factor(s, exact_law(formula), 1.0)


def biased(problem, theta, count, seed, deadline):
    """Uniform whatever theta says."""
    states, _ = exact_law(problem.formula)
    return states[np.random.default_rng(seed).integers(0, len(states), count)]


def lying(problem, theta, count, seed, deadline):
    """Half of what it says is wrong."""
    rows = biased(problem, theta, count, seed, deadline)
    rows[::2] = False
    return rows


@pytest.fixture
def fake(monkeypatch):
    """Registers a sampler for one test: fake(draw, ...) -> its name."""

    def register(draw, **changes):
        sampler = replace(
            get("enumerate"), name="fake", blocks=partial(foreign.blocks, draw), **changes
        )
        module = type("Module", (), {"SAMPLER": sampler})
        monkeypatch.setitem(samplers._REGISTRY, "fake", "fake")
        real = samplers.import_module
        monkeypatch.setattr(
            samplers, "import_module", lambda key: module if key == "fake" else real(key)
        )
        return "fake"

    return register


def test_a_biased_sampler_is_rejected_by_the_same_test(fake):
    formula = LAWS["complete4"]
    s = draw(fake(biased), formula, weights(formula), 20_000)
    assert s.guarantee == "exact"  # it says so
    assert chi_square(s.to_numpy(), exact_law(formula, weights(formula))) < ALPHA
    assert chi_square(s.to_numpy(), exact_law(formula)) > ALPHA


def test_a_real_heuristic_is_rejected_by_the_same_test():
    if missing_modules(get("cmsgen")):
        pytest.skip("needs pycmsgen")
    formula = LAWS["random 3-SAT"]
    s = draw("cmsgen", formula, None, 20_000)
    assert s.guarantee == "heuristic"
    assert chi_square(s.to_numpy(), exact_law(formula)) < ALPHA


def test_a_sampler_that_lies_is_caught(fake):
    """Never promised, still checked: what is invalid is dropped, and the guarantee with it."""
    formula = LAWS["complete4"]
    s = draw(fake(lying), formula, None, 100)
    assert len(s) == 50 and s.status == "budget" and formula.satisfied(s.to_numpy()).all()
    assert s.info["invalid"] == 50 and s.info["drawn"] == 100
    assert s.guarantee == "heuristic"


def test_a_missing_package_names_the_extra(fake):
    method = fake(biased, modules=("no_such_package",), needs="samplers")
    with pytest.raises(nelson.NelsonError, match=r'no_such_package.*pip install "nelson\[samplers'):
        draw(method, LAWS["complete4"])
    row = next(row for row in nelson.sampling.registry.describe() if row.name == "fake")
    assert not row.installed
    with pytest.raises(nelson.NelsonError, match=r"nelson\[samplers\]"):
        foreign.require("no_such_package")
    assert foreign.require("json").dumps([]) == "[]"


# --- samplers that may be invalid ---------------------------------------------------------------


def test_check_drops_what_is_invalid_and_draws_on(fake):
    method = fake(lying, may_be_invalid=True, guarantee=lambda problem, sweeps: "heuristic")
    formula = LAWS["complete4"]
    s = draw(method, formula, None, 100)
    assert_good(s, formula, 100)
    assert s.info["invalid"] > 90 and s.info["drawn"] >= 200
    assert s.info["validity"] == pytest.approx(0.5, abs=0.02)
    raw = draw(method, formula, None, 100, check=False)
    assert len(raw) == 100 and raw.status == "ok" and raw.guarantee == "heuristic"
    assert formula.satisfied(raw.to_numpy()).mean() == raw.info["validity"] == 0.5
    blocks = list(nelson.stream(formula, None, 150, block=64, method=method, seed=1))
    assert [len(block) for block in blocks] == [64, 64, 22]
    rows = np.zeros((2, 6))
    assert_good(draw(method, formula, rows, 70), formula, 70)


def test_what_is_never_valid_is_given_up(fake):
    def wrong(problem, theta, count, seed, deadline):
        return np.zeros((count, 6), bool)

    formula = LAWS["complete4"]
    s = draw(fake(wrong, may_be_invalid=True), formula, None, 100)
    assert len(s) == 0 and s.status == "budget" and "none of" in s.info["reason"]
    assert "a solver says that solutions exist" in s.info["reason"]
    assert len(draw("fake", formula, None, 100, check=False)) == 100


# --- the plain oracles --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rejection", "enumerate"])
def test_a_stream_is_the_sample_in_blocks(method):
    formula = non_extremal()["random 3-SAT"]
    rows = np.array([weights(formula, k) for k in range(2)])
    whole = draw(method, formula, rows, 1000).to_numpy()
    blocks = nelson.stream(formula, rows, 1000, block=192, method=method, seed=SEED)
    assert np.array_equal(np.concatenate([b.to_numpy() for b in blocks], axis=1), whole)
    fewer = draw(method, formula, rows, 100).to_numpy()
    assert np.array_equal(fewer, whole[:, :100])
    one = draw(method, formula, rows, 1000, threads=1).to_numpy()
    assert np.array_equal(one, whole)


def test_enumerate_says_what_is_too_large():
    s = draw("enumerate", random_ksat(60, 60, 5, 1), n=5)
    assert len(s) == 0 and "more than 262144 rows" in s.info["reason"]
    parts = [[3 * k + 1, 3 * k + 2, 3 * k + 3] for k in range(40)]  # 7^40 structures, 40 tables
    s = draw("enumerate", nelson.Formula(parts, n_vars=130), n=5)
    assert s.status == "ok" and s.info["log2_count"] == pytest.approx(40 * np.log2(7) + 10)


def test_rejection_counts_its_proposals_and_gives_up():
    formula = nelson.Formula([[v] for v in range(1, 3)] + [[3, 4], [3, -4]], n_vars=4)
    s = draw("rejection", formula, n=5000)
    assert len(s) == 5000 and s.info["resampled"] == pytest.approx(5000, rel=0.2)  # P(C) = 1/2
    hopeless = random_ksat(200, 800, 3, 1)
    s = draw("rejection", hopeless, n=1000)
    assert len(s) == 0 and s.status == "budget"
    assert 64_000 <= s.info["resampled"] < 10**6
    few = draw("rejection", nelson.Formula([[1], [2, 3]]), [0, -9.0, -9.0], n=100, max_rounds=10)
    assert few.status == "budget" and "within 10 rounds" in few.info["reason"]


def test_evidence_reaches_the_check():
    """Rows that ignore the evidence are not handed out, whoever drew them."""
    formula = LAWS["complete4"]
    problem = prepare(formula, evidence_of(formula, [2]))
    states, _ = exact_law(formula)
    lanes = foreign.checked(
        problem,
        nelson.kernels.core.bits.pack(states),
        nelson.kernels.core.bits.tail_mask(len(states)),
    )
    assert np.bitwise_count(lanes).sum() == states[:, 1].sum()


if __name__ == "__main__":
    text = DOCS.read_text()
    begin, end = "<!-- table -->\n", "<!-- end of table -->"
    before, rest = text.split(begin)
    DOCS.write_text(before + begin + table() + end + rest.split(end)[1])
