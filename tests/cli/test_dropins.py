"""The commands instead of cmsgen, unigen, approxmc and ganak, as scripts call them."""

from __future__ import annotations

import gc
import itertools
import os
import random
import subprocess
import sys
import tomllib
from fractions import Fraction

import pytest
from scipy.stats import chisquare

import nelson
from nelson.cli import dropins
from nelson.cli.dropins import DIALECTS
from tests import ROOT

#: README of approxmc: 96 solutions on 7 of 500 variables.
SHOWN = "c ind 1 3 4 6 7 8 10 0\np cnf 500 1\n3 4 0\n"
UNSAT = "p cnf 1 2\n1 0\n-1 0\n"
#: README of ganak, without its projection.
WEIGHTED = "c t wmc\np cnf 3 2\nc p weight 1 3/10 0\nc p weight -1 0.8 0\n1 2 3 0\n-1 2 0\n"
#: (command, its words, exit code, a line of stdout)
CALLS = [
    ("cmsgen", "a.cnf --samples 5", 10, "c Finished generating all 5 samples"),
    ("cmsgen", "u.cnf", 20, "WARNING: No samples generated, CNF is unsatisfiable"),
    ("cmsgen", "none.cnf", 1, ""),
    ("cmsgen", "--sample 5 a.cnf", 255, ""),
    ("cmsgen", "a.cnf u.cnf", 255, "ERROR: you can only pass at most one"),
    ("unigen", "--samples=4 --arjun 1 a.cnf", 0, "c o ind 1 3 4 6 7 8 10 0"),
    ("unigen", "u.cnf", 255, "c o [unig] The input formula is unsatisfiable."),
    ("unigen", "none.cnf", 255, ""),
    ("unigen", "", 255, "ERROR: you need to provide an input file."),
    ("approxmc", "--seed 5 a.cnf", 0, "c [appmc] Number of solutions is: 48*2**1*1"),
    ("approxmc", "-v 0 -e 0.5 a.cnf", 0, "s mc 96"),
    ("approxmc", "u.cnf", 0, "s UNSATISFIABLE"),
    ("approxmc", "--wrong 3 a.cnf", 255, ""),
    ("ganak", "a.cnf", 0, "c s exact arb int 96"),
    ("ganak", "--td 1 --fast a.cnf --tdmaxw 2.5", 0, "c s type pmc"),
    ("ganak", "u.cnf", 0, "c s log10-estimate -inf"),
    ("ganak", "--mode 1 w.cnf", 0, "c s exact arb frac 3"),
    ("ganak", "--mode 7 w.cnf", 0, "c s exact quadruple float 3.00000000e+00"),
    ("ganak", "w.cnf", 1, ""),
    ("ganak", "--mode 3 w.cnf", 1, ""),
    ("ganak", "none.cnf", 1, ""),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("a", SHOWN), ("u", UNSAT), ("w", WEIGHTED)):
        (tmp_path / f"{name}.cnf").write_text(text)
    return tmp_path


def call(monkeypatch, capfd, name, words):
    """-> exit code, stdout, stderr. What `main` changes in a process is put back."""
    monkeypatch.setattr(sys, "argv", [f"nelson-{name}", *words.split()])
    monkeypatch.setattr(dropins, "leave_on_signals", lambda: None)
    threshold, most_digits = gc.get_threshold(), sys.get_int_max_str_digits()
    try:
        with pytest.raises(SystemExit) as ended:
            dropins.main(name)
    finally:
        gc.set_threshold(*threshold)
        sys.set_int_max_str_digits(most_digits)
    return ended.value.code, *capfd.readouterr()


@pytest.mark.parametrize(("name", "words", "code", "line"), CALLS)
def test_calls(name, words, code, line, here, monkeypatch, capfd):
    found, out, err = call(monkeypatch, capfd, name, words)
    assert (found, "Traceback" in err) == (code, False)
    assert any(each.startswith(line) for each in [*out.splitlines(), ""])
    comments = [each for each in out.splitlines() if each[:2] not in ("c ", "s ")]
    # Whatever else is on stdout is a sample or one of the original's messages.
    assert all(each.endswith(" 0") or each[:5] in ("WARNI", "ERROR") for each in comments)


def test_samples_of_cmsgen_are_whole_solutions(here, monkeypatch, capfd):
    """In samples.out, unless --samplefile says where; projected solutions are equally likely."""
    assert call(monkeypatch, capfd, "cmsgen", "a.cnf --samples 4000 -s 1")[0] == 10
    rows = [line.split() for line in (here / "samples.out").read_text().splitlines()]
    assert len(rows) == 4000
    assert {tuple(abs(int(x)) for x in row) for row in rows} == {(*range(1, 501), 0)}
    assert all("3" in row[:10] or "4" in row[:10] for row in rows)
    found = [sum({a, b} <= set(r[:10]) for r in rows) for a, b in [("3", "4"), ("-3", "4")]]
    assert chisquare([*found, 4000 - sum(found)], [4000 / 3] * 3).pvalue > 1e-6
    call(monkeypatch, capfd, "cmsgen", "a.cnf --samples=3 --seed=2 --samplefile=mine.out")
    assert len((here / "mine.out").read_text().splitlines()) == 3


def test_weights_of_cmsgen(here, monkeypatch, capfd):
    """README of cmsgen: w 1 0.1."""
    (here / "x.cnf").write_text("p cnf 2 1\nw 1 0.1\n2 0\n")
    call(monkeypatch, capfd, "cmsgen", "x.cnf --samples 5000")
    lines = (here / "samples.out").read_text().splitlines()
    true = lines.count("1 2 0")
    assert true + lines.count("-1 2 0") == 5000
    assert chisquare([true, 5000 - true], [500, 4500]).pvalue > 1e-6
    assert chisquare([true, 5000 - true], [2500, 2500]).pvalue < 1e-6  # the twin: no weights


@pytest.mark.parametrize(
    ("name", "words", "first"),
    [
        ("unigen", "--samples 30 a.cnf old.txt", "v {} 0:1"),
        ("unigen", "--samples 30 a.cnf --sampleout old.txt", "{} 0"),
        ("approxmc", "-s 1 -v 0 --samples 30 --sampleout old.txt a.cnf", "1:{} 0"),
    ],
)
def test_files_of_samples(name, words, first, here, monkeypatch, capfd):
    """The forms that Barbarik reads are those of older versions."""
    assert call(monkeypatch, capfd, name, words)[0] == 0
    lines = (here / "old.txt").read_text().splitlines()
    assert len(lines) == 30
    for line in lines:
        middle = line.removeprefix(first.split("{}")[0]).removesuffix(first.split("{}")[1])
        values = [int(x) for x in middle.split()]
        assert [abs(v) for v in values] == [1, 3, 4, 6, 7, 8, 10]
        assert 3 in values or 4 in values


@pytest.mark.parametrize("seed", range(12))
def test_counts_against_enumeration(seed, here, monkeypatch, capfd):
    """Integers by approxmc and ganak, fractions by ganak --mode 1."""
    chosen = random.Random(seed)
    n = 7
    clauses = [
        [chosen.choice([-1, 1]) * v for v in chosen.sample(range(1, n + 1), 3)]
        for _ in range(chosen.randint(1, 14))
    ]
    shown = sorted(chosen.sample(range(1, n + 1), chosen.randint(1, n)))
    body = "".join(" ".join(map(str, c)) + " 0\n" for c in clauses)
    weights = {s * v: Fraction(chosen.randint(0, 30), 7) for v in shown for s in (1, -1)}
    weights = {x: w or Fraction(1, 3) for x, w in weights.items()}
    show = f"p cnf {n} {len(clauses)}\nc p show {' '.join(map(str, shown))} 0\n"
    lines = "".join(f"c p weight {x} {w} 0\n" for x, w in weights.items())
    (here / "f.cnf").write_text(show + body)
    (here / "g.cnf").write_text("c t pwmc\n" + show + lines + body)
    seen = set()
    for row in itertools.product([False, True], repeat=n):
        if all(any(row[abs(x) - 1] == (x > 0) for x in c) for c in clauses):
            seen.add(tuple(row[v - 1] for v in shown))
    total = Fraction(0)
    for values in seen:
        product = Fraction(1)
        for v, value in zip(shown, values, strict=True):
            product *= weights[v if value else -v]
        total += product
    assert f"s mc {len(seen)}\n" in call(monkeypatch, capfd, "approxmc", "f.cnf")[1]
    assert f"c s exact arb int {len(seen)}\n" in call(monkeypatch, capfd, "ganak", "f.cnf")[1]
    assert f"c s exact arb frac {total}\n" in call(monkeypatch, capfd, "ganak", "--mode 1 g.cnf")[1]


def test_a_weaker_guarantee_is_on_stderr_only(here, monkeypatch, capfd):
    """The twin of the other calls, which say nothing."""
    from nelson.sampling import sample_stream

    real = sample_stream.stream
    monkeypatch.setattr(
        sample_stream, "stream", lambda *a, **k: real(*a, **k | {"method": "gibbs", "sweeps": 1})
    )
    (here / "h.cnf").write_text("p cnf 3 2\n1 2 0\n-1 3 0\n")
    _, out, err = call(monkeypatch, capfd, "unigen", "--samples 5 h.cnf")
    assert "heuristic" in err
    assert "heuristic" not in out
    monkeypatch.setattr(sample_stream, "stream", real)
    _, _, err = call(monkeypatch, capfd, "unigen", "--samples 5 h.cnf")
    assert err == ""


def test_an_approximate_count_is_on_stderr_only(here, monkeypatch, capfd):
    monkeypatch.setattr(
        "nelson.sampling.solution_count.solution_count", lambda *_: (3, 5, "too hard")
    )
    _, out, err = call(monkeypatch, capfd, "approxmc", "a.cnf")
    assert "s mc 96\n" in out
    assert "the count is approximate (epsilon 0.8, delta 0.2): too hard" in err


def test_counts_of_any_size_and_limits(here, monkeypatch, capfd):
    """More digits than Python prints by default; a count that was not made is an error."""
    (here / "b.cnf").write_text("p cnf 20000 1\n1 2 0\n")
    code, out, _ = call(monkeypatch, capfd, "ganak", "b.cnf")
    assert code == 0
    number = next(line for line in out.splitlines() if "exact arb int" in line).split()[-1]
    assert (len(number), number[-3:]) == (6021, str(3 * pow(2, 19998, 1000))[-3:])

    def never(*_, **__):
        raise nelson.BudgetExceeded("too hard")

    monkeypatch.setattr("nelson.exact.queries.count", never)
    code, out, err = call(monkeypatch, capfd, "ganak", "b.cnf")
    assert (code, err) == (1, "nelson: ERROR: too hard\n")
    assert not any(line.startswith("s ") for line in out.splitlines())


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", DIALECTS)
def test_the_command_in_a_process(name, tmp_path):
    """Its help, its example, and stdin."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = entry[f"nelson-{name}"].split(":")
    start = [sys.executable, "-c", f"from {module} import {function} as main; main()"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}

    def run(*words, text=""):
        return subprocess.run(
            [*start, *words], cwd=tmp_path, env=env, input=text, capture_output=True, text=True
        )

    shown = run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert DIALECTS[name].example in shown.stdout
    (tmp_path / "input.cnf").write_text(SHOWN)
    example = run(*DIALECTS[name].example.split()[1:])
    assert (example.returncode, example.stderr) == (10 if name == "cmsgen" else 0, "")
    if name in ("cmsgen", "unigen"):
        assert len((tmp_path / "mysamples.out").read_text().splitlines()) == 50
    if name in ("cmsgen", "ganak"):
        assert run(text=UNSAT).returncode == (20 if name == "cmsgen" else 0)
