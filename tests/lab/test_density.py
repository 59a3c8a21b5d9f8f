"""`python -m lab density`: rules found or refused, laws of rankings, connect-4, the whole table."""

from __future__ import annotations

import itertools
import json
import lzma
import math

import numpy as np
import pytest

import nelson
from lab import pages
from lab.density import cells, connect4, data, fields, models, ranking_models
from lab.density.column_groups import groups
from lab.density.listed import Listed
from lab.density.rankings import Rankings, read_soc
from lab.density.tables import over_seeds, verdict
from nelson.errors import FormulaError
from nelson.space.tables.rules import log_p_of_never, never_together
from nelson_paper.experiments import get
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.registry import run_cell
from nelson_paper.experiments.report import markdown
from tests.lab import lab

NAME = "lab.density:EXPERIMENT"


def planted(n: int, seed: int = 0) -> np.ndarray:
    """Nine columns: exactly one of 1 to 3, at most one of 4 to 6, three free; column 7 is never set
    with column 1. Columns 8 and 9 meet in a quarter of the rows."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 9), np.uint8)
    x[np.arange(n), rng.integers(0, 3, n)] = 1
    second = rng.integers(3, 7, n)  # 6: none
    x[second < 6, second[second < 6]] = 1
    x[:, 6] = (rng.random(n) < 0.5) & (x[:, 0] == 0)
    x[:, 7:] = rng.random((n, 2)) < 0.5
    return x


def written(folder, name: str, bits: np.ndarray, part: str) -> None:
    text = "\n".join(",".join(map(str, row)) for row in bits.tolist()) + "\n"
    (folder / f"{name}.{part}.data.xz").write_bytes(lzma.compress(text.encode()))


def as_set(n: int = 600) -> data.DataSet:
    return data.DataSet("planted", planted(n), planted(200, 1), planted(200, 2))


# --- rules ----------------------------------------------------------------------------------------


def test_planted_rules_are_found_in_words():
    found = fields.find(as_set())
    assert [(group.columns, group.exactly) for group in found.groups] == [
        ((0, 1, 2), True), ((3, 4, 5), False), ((6,), False), ((7,), False), ((8,), False),
    ]  # fmt: skip
    assert found.words == [
        "exactly one of the columns 1 to 3",
        "at most one of the columns 4 to 6",
        "if c1_3 is c1, then c7 is False",
    ]
    assert found.space.satisfied(found.rows(planted(500, 3))).all()
    assert (fields.bits_of(found.groups, found.rows(planted(50))) == planted(50)).all()
    formula = fields.formula_of(found)
    every = np.array(list(itertools.product([0, 1], repeat=9)), np.uint8)
    legal = found.space.satisfied(found.rows(every))
    assert (formula.satisfied(every.astype(bool)) == legal).all() and legal.sum() == 3 * 4 * 8 - 16


@pytest.mark.slow
def test_rules_of_chance_are_refused():
    """Twin: ten rows have the same rules, but chance explains them. And in 200 tables of ten
    independent columns with rare ones, at most 1% may have a rule: more than 8 of 200 has the
    probability 2e-4 at that rate."""
    few = planted(10)
    never = [
        (a, b) for a, b in itertools.combinations(range(9), 2) if not (few[:, a] & few[:, b]).any()
    ]
    assert len(never) > 7  # the rules are there
    assert all(len(group.columns) == 1 for group in groups(few))
    alarms = 0
    for seed in range(200):
        x = np.random.default_rng(seed).random((60, 10)) < 0.25
        found = groups(x)
        space = fields.space_of(found, "chance")
        codes = (
            {name: x[:, k].astype(int) for k, name in enumerate(space.fields)}
            if len(found) == 10
            else None
        )
        alarms += codes is None or bool(never_together(space, codes))
    assert alarms <= 8


def test_probability_of_never_meeting_is_fishers():
    """Against all ways to place 3 of 8 rows beside 4 given ones."""
    free = sum(not set(rows) & {0, 1, 2, 3} for rows in itertools.combinations(range(8), 3))
    assert math.exp(log_p_of_never(3, 4, 8)) == pytest.approx(free / math.comb(8, 3))
    assert log_p_of_never(5, 4, 8) == -math.inf


def test_a_rule_that_a_validation_row_breaks_is_dropped_and_gives_slack():
    rows = as_set()
    rows.valid[0, [0, 1, 2, 6]] = 1, 0, 0, 1
    found = fields.find(rows)
    assert [str(rule) for rule in found.dropped] == ["if c1_3 is c1, then c7 is False"]
    assert not found.rules and found.broke == 1
    assert models.slack(found, rows) == pytest.approx(2 / 202)


def test_from_frame_with_rules(tmp_path):
    frame = {"kind": ["a", "b"] * 100, "on": [True, False] * 100}
    pandas = pytest.importorskip("pandas")
    space = nelson.Space.from_frame(pandas.DataFrame(frame), rules=True)
    assert space.count() == 2
    assert [rule.name for rule in space.rules] == ["on is determined by kind"]
    space.save(tmp_path / "found.toml")
    assert nelson.Space.load(tmp_path / "found.toml").count() == 2


@pytest.mark.slow
def test_the_mixture_sums_to_one():
    """Over all 512 rows, also those that break rules and groups; twin: the law without slack gives
    the rows that break a rule nothing."""
    every = np.array(list(itertools.product([0, 1], repeat=9)), np.uint8)
    rows = data.DataSet("planted", planted(600), planted(200, 1), every)
    found = fields.find(rows)
    told = models.scored(rows, found, "tree")
    assert np.exp(told.scores).sum() == pytest.approx(1.0)
    assert told.broken == 512 - 80 and np.isfinite(told.scores).all() and told.valid == 1.0
    inside = found.space.satisfied(found.rows(every))
    assert np.exp(told.scores[inside]).sum() == pytest.approx(1 - told.slack, abs=told.slack)


# --- connect-4 ------------------------------------------------------------------------------------


def reached(columns: int, rows: int, stones: int, length: int) -> set[tuple[frozenset, frozenset]]:
    """By play: positions after `stones` moves of each, not won, and no next stone wins."""
    lines = [set(line) for line in connect4.lines(columns, rows, length)]
    layer = {(frozenset(), frozenset())}
    for move in range(2 * stones):
        after = set()
        for sides in layer:
            for column in range(columns):
                row = sum(cell[0] == column for side in sides for cell in side)
                if row < rows:
                    new = list(sides)
                    new[move % 2] = sides[move % 2] | {(column, row)}
                    after.add(tuple(new))
        layer = after

    def quiet(sides) -> bool:
        for side in sides:
            if any(line <= side for line in lines):
                return False
            for column in range(columns):
                row = sum(cell[0] == column for s in sides for cell in s)
                if row < rows and any(line <= side | {(column, row)} for line in lines):
                    return False
        return True

    return {sides for sides in layer if quiet(sides)}


@pytest.mark.slow
def test_connect4_on_a_small_board_is_what_play_reaches():
    """4 x 4 cells, three stones each, three in a line. Twin: without rule 5 there are more."""
    shape = (4, 4, 3)
    space = connect4.board(*shape, 3)
    found = connect4.positions(connect4.in_turns(space, *shape))
    cells_ = connect4.cells(4, 4)
    states = found.reshape(len(found), 16, 3)
    listed = {
        tuple(
            frozenset(cells_[k] for k in np.flatnonzero(row[:, connect4.BITS.index(player)]))
            for player in connect4.PLAYERS
        )
        for row in states
    }
    assert listed == reached(*shape, 3) and len(listed) == len(found)
    assert space.count() > len(found)


def test_columns_of_connect4():
    bits = np.zeros((1, 126), np.uint8)
    bits[0, 1::3] = 1
    bits[0, :3] = 0, 0, 1
    assert connect4.columns_of(bits)["a1"][0] == "o" and connect4.columns_of(bits)["g6"][0] == "-"
    with pytest.raises(FormulaError, match="several states"):
        connect4.columns_of(np.ones((1, 126), np.uint8))
    with pytest.raises(FormulaError, match="shape"):
        connect4.columns_of(np.ones((1, 9), np.uint8))


def test_weights_on_a_list_match_the_moments_of_the_data():
    """The gradient at the fit is the penalty: mean of the model = mean of the data - 10 w / n."""
    every = np.array(list(itertools.product([0, 1], repeat=8)), bool)
    rng = np.random.default_rng(0)
    rows = every[rng.choice(256, 4000, p=rng.dirichlet(np.ones(256)))]
    law = Listed.fit(every, rows, np.arange(8), pairs=False)
    p = np.exp(law.log_prob(every))
    assert p.sum() == pytest.approx(1)
    assert p @ every == pytest.approx(rows.mean(axis=0) - 10 / 4000 * law.weights, abs=1e-4)


# --- rankings -------------------------------------------------------------------------------------

ALL = np.array(list(itertools.permutations(range(4))))


def drawn(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(0)
    return ALL[rng.choice(24, n, p=rng.dirichlet(np.ones(24)))]


@pytest.mark.parametrize("above", [False, True])
def test_rankings_of_four_items_against_enumeration(above):
    law = Rankings.of(4, above=above)
    weights = np.random.default_rng(1).normal(size=law.size)
    score = law.features(ALL) @ weights
    assert law.log_z(weights) == pytest.approx(np.log(np.exp(score).sum()))
    p = np.exp(law.log_prob(weights, ALL))
    assert law.mean(weights) == pytest.approx(p @ law.features(ALL))
    assert (law.best(weights) == ALL[score.argmax()]).all()
    rows = drawn()
    fitted = law.fit(rows, 1.0)
    gap = law.features(rows).mean(axis=0) - law.mean(fitted) - fitted / len(rows)
    assert np.abs(gap).max() < 1e-3


@pytest.mark.slow
def test_ten_items_make_a_circuit_of_the_size_of_the_dynamic_programme():
    law = Rankings.of(8, above=False)
    assert law.log_z(np.zeros(law.size)) == pytest.approx(math.lgamma(9))
    assert law.circuit.edges < 8 * 2**8 * 8 * 4


@pytest.mark.slow
def test_mallows_against_all_centres_and_spreads():
    rows = drawn()
    found = ranking_models.Mallows.fit(rows)
    assert np.exp(found.log_prob(ALL)).sum() == pytest.approx(1)
    best = max(
        ranking_models.Mallows(centre, spread).log_prob(rows).mean()
        for centre in ALL
        for spread in np.linspace(0, 3, 301)
    )
    assert best <= found.log_prob(rows).mean() + 1e-12
    assert found.log_prob(rows).mean() < best + 1e-3


def test_plackett_luce_against_its_gradient():
    """At the maximum no change of the log-worths helps; the pseudo-choices move it a little."""
    rows = drawn(4000)
    found = ranking_models.PlackettLuce.fit(rows)
    assert np.exp(found.log_prob(ALL)).sum() == pytest.approx(1)
    mean = found.log_prob(rows).mean()
    for item, factor in itertools.product(range(4), (0.9, 1.1)):
        worth = found.worth.copy()
        worth[item] *= factor
        assert ranking_models.PlackettLuce(worth).log_prob(rows).mean() < mean


# --- files and the command ------------------------------------------------------------------------

SOC = "3\n1,a\n2,b\n3,c\n4,4,3\n2,1,2,3\n1,3,1,2\n1,2,1,3\n"


def test_files_of_rankings(tmp_path):
    path = tmp_path / "x.soc"
    path.write_text(SOC)
    names, rows = read_soc(path)
    assert names == ["a", "b", "c"] and rows.tolist() == [[0, 1, 2]] * 2 + [[2, 0, 1], [1, 0, 2]]
    path.write_text(SOC + "1,1,1,2\n")
    with pytest.raises(FormulaError, match="no list of complete rankings"):
        read_soc(path)


def test_files_of_bits(tmp_path):
    written(tmp_path, "a", planted(5), "train")
    assert data.sets_in(tmp_path) == []
    with pytest.raises(FormulaError, match=r"a\.train\.data and \.valid\.data"):
        data.load(tmp_path, "a")
    (tmp_path / "a.valid.data").write_text("0,1,0,1,0,1,0,1,1\n0,1,2,0,0,0,0,0,0\n")
    with pytest.raises(FormulaError, match=r"a\.valid\.data:2: .*9 times 0 or 1"):
        data.load(tmp_path, "a")
    with pytest.raises(FormulaError, match="no data set"):
        cells(False, str(tmp_path / ".."))


@pytest.mark.slow
def test_the_whole_experiment_on_tiny_data(tmp_path):
    """Each model of a set, and rankings; a table for each, and a verdict that is not invented."""
    for part, n in (("train", 400), ("valid", 100), ("test", 100)):
        written(tmp_path, "nltcs", planted(n, n), part)
    (tmp_path / "sushi.soc").write_text(SOC.replace("2,1,2,3", "20,1,2,3"))
    planned = cells(False, str(tmp_path))
    names = [(cell.key["model"], cell.key["seed"]) for cell in planned]
    once = [(name, 0) for name in models.MODELS[:3]]
    many = [(name, seed) for name in (*models.MODELS[3:], "rankings") for seed in range(3)]
    assert names == once + many
    planned = [cell for cell in planned if cell.key["seed"] == 0]
    rows = [row for cell in planned for row in run_cell(NAME, dict(cell.key))]
    score = {row["model"]: row["score"] for row in rows if row.get("score") is not None}
    assert score["rules"] > score["fields"] + 0.1
    assert all(row["valid"] == 1 for row in rows if "valid" in row)
    frozen = [row["status"] for row in rows if row["model"] == models.ALL_PAIRS]
    assert frozen == ["not run: chains freeze under rules between fields"]
    made = get(NAME).tables(rows)
    assert [table.title for table in made] == [
        "Log-likelihood of held-out rows", "What was learned, and how long it took",
        "Sushi: rankings of ten items", "The most likely ranking", "Rules that were found",
    ]  # fmt: skip
    assert ["nltcs", "if c1_3 is c1, then c7 is False"] in [list(line) for line in made[-1].rows]


@pytest.mark.slow
@pytest.mark.process
def test_the_command_writes_tables_and_rules(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for part, n in (("train", 400), ("valid", 100)):
        written(folder, "toy", planted(n, n), part)
    out = ("-o", tmp_path / "run", "--only", "model=fields,rules")
    done = lab("density", "--data", folder, *out)
    assert done.returncode == 0 and "toy (valid rows)" in done.stdout
    assert "if c1_3 is c1, then c7 is False" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
    assert lab("density-rules", folder, tmp_path / "rules").returncode == 0
    assert nelson.Space.load(tmp_path / "rules" / "toy.toml").count() == 3 * 4 * 8 - 16
    again = lab("density", "-o", tmp_path / "run", "--report")
    assert again.returncode == 0 and "toy (valid rows)" in again.stdout
    assert lab("density").returncode == 2


def test_seeds_become_one_row_with_their_spread():
    """Mean and spread over the seeds that ended well; a set without a figure says so, and has no
    verdict; a spread that is wide enough makes a loss level."""

    def row(seed: int, score: float, **more) -> dict:
        base = {"row": "model", "set": "dna", "model": "pairs", "part": "test", "status": "ok"}
        told = {"error": 0.1, "log_z_error": 0.0, "numbers": 10, "seconds_taken": 2.0}
        rest = {"valid": 1.0, "guarantee": "exact", "broken": 0, "rows": 9, "slack": 0.0}
        return base | told | rest | {"seed": seed, "score": score} | more

    runs = [row(0, -80.0), row(1, -81.0), row(2, -85.0), row(3, 0.0, status="T.O.")]
    (one,) = over_seeds(runs)
    assert one["seeds"] == 3 and one["score"] == pytest.approx(-82.0) and one["spread"] == 2.5
    assert one["noise"] == pytest.approx(math.sqrt(7 / 3))
    best = "MADE, mask sampling"
    assert verdict("dna", one) == f"level with {best} (-2.34)"
    assert verdict("dna", one | {"noise": 0.0}) == f"loses by 2.34 against {best}"
    sure = one | {"noise": 0.0, "score": -79.0}
    assert verdict("dna", sure) == f"wins by 0.66 against {best}"
    assert "rows that score it" in verdict("dna", sure | {"part": "valid"})
    assert "told rules" in verdict("dna", sure | {"model": "game + cells"})
    table = get(NAME).tables([*runs, row(0, -6.0, set="nltcs")])[0]
    assert list(table.rows[0][2:]) == [
        "-82.00 ± 0.10", "3, ± 2.50", f"-79.66 ({best}), -82.31 (EoNADE)",
        f"level with {best} (-2.34)",
    ]  # fmt: skip
    assert list(table.rows[1][3:]) == ["1", "not found", ""]


def test_the_page_takes_its_tables_from_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    first, last = pages.marks("density")
    begun = {"started": "2026-11-16T20:00:00+00:00", "command": "nelson bench density"}
    lines = [{"run": begun | {"machine": {"cores": "2", "processor": "X"}}}]
    lines += [{"end": {"seconds": 660.0}}]
    (tmp_path / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = Table(pages.DENSITY[0], ("set", "score"), [["new", "-1"]], "A note.")
    other = Table("Rules that were found", ("set",), [["left out"]])
    text = "\n\n".join(["# Results", "## Density", markdown(table), markdown(other)])
    (tmp_path / "table.md").write_text(text)
    page = tmp_path / "density.md"
    page.write_text(f"before\n\n{first}\n\nold\n\n{last}\n\nafter\n")
    for _ in range(2):  # the second time changes nothing
        pages.write_density(tmp_path)
        made = page.read_text()
        assert made.startswith("before\n\n") and made.endswith("\n\nafter\n") and "old" not in made
        assert "on 16 November 2026, on 2 cores of X, in 11 minutes" in made
        assert made.count("| new") == 1 and "A note." in made and "left out" not in made
