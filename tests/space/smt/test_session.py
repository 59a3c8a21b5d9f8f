"""Sessions of SMT-LIB2: replies, errors, levels, cores; other solvers on random scripts."""

from __future__ import annotations

import re

import pytest

import nelson
from nelson.errors import FormulaError
from nelson.space.smt.reader import Misread, read, written
from nelson.space.smt.session import Session
from tests.space.smt.random_scripts import RandomScripts, answers, cvc5_answers, z3_answers


def _replies(script: str) -> list[str]:
    session = Session()
    return (session.reply(script) + session.finish()).splitlines()


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_scripts_have_the_answers_of_z3_and_cvc5(first):
    pytest.importorskip("z3", reason="z3-solver is not installed: pip install z3-solver")
    pytest.importorskip("cvc5", reason="cvc5 is not installed: pip install cvc5")
    for seed in range(first, first + 10):
        script = RandomScripts(seed).script()
        ours = answers("\n".join(_replies(script)))
        assert ours == z3_answers(script), f"seed {seed}"
        assert ours == cvc5_answers(script), f"seed {seed}"


def test_the_comparison_would_see_a_wrong_answer():
    """The twin: each answer of a script depends on what is asserted."""
    script = "(declare-const x (_ BitVec 4))(assert (bvult x #x3))(assert (bvugt x #x1))(check-sat)"
    assert _replies(script) == ["sat"]
    assert _replies(script.replace("#x1", "#x2")) == ["unsat"]


@pytest.mark.parametrize("seed", range(20))
def test_models_satisfy_their_scripts(seed):
    """The values are asserted again, as constants: the script stays satisfiable."""
    made = RandomScripts(seed)
    script = made.script()
    session = Session()
    if answers(session.reply(script))[-1] != "sat":
        return
    values = session.reply(f"(get-value ({' '.join(made.widths)} (select arr #x3)))")
    pins = "".join(f"(assert (= {written(a)} {b}))" for a, b in read(values)[0])
    assert answers(session.reply(pins + "(check-sat)")) == ["sat"]


def test_a_session_in_small_pieces():
    script = "(declare-const |a b| Bool) ; a comment (\n(assert |a b|)(check-sat)"
    script += '(echo "x ""y""")(get-value (|a b|))'
    session = Session()
    found = "".join(session.reply(letter) for letter in script) + session.finish()
    assert found.splitlines() == ["sat", '"x ""y"""', "((|a b| true))"]


def test_levels_names_and_cores():
    found = _replies(
        """(set-option :produce-unsat-cores true) (declare-const x (_ BitVec 8))
        (assert (! (bvult x #x05) :named small)) (assert (! (bvult x #xf0) :named loose))
        (push) (declare-const y Bool) (assert (! (bvugt x #x09) :named large)) (check-sat)
        (get-unsat-core) (pop) (check-sat) (get-value (small (bvadd x x))) (get-value (y))
        (check-sat-assuming ((= x #x07) loose)) (get-unsat-assumptions) (push 2) (pop 3)
        (reset-assertions) (check-sat) (get-info :assertion-stack-levels)"""
    )
    assert found[:2] == ["unsat", "(small large)"]
    assert found[2] == "sat" and found[3].startswith("((small true) ((bvadd x x) #x")
    assert found[4].startswith("(error") and "y" in found[4]
    assert found[5:7] == ["unsat", "((= x #x07))"]
    assert found[7].startswith("(error") and found[8:] == ["sat", "(:assertion-stack-levels 0)"]


def test_declarations_on_a_level_can_be_made_again():
    found = _replies(
        """(push)(declare-const x Bool)(assert x)(check-sat)(pop)
        (declare-const x (_ BitVec 2))(assert (= x #b10))(check-sat)(get-value (x))"""
    )
    assert found == ["sat", "sat", "((x #b10))"]


@pytest.mark.parametrize(
    "wrong",
    [
        "(assert x)",
        "(declare-const x Int)",
        "(declare-fun f (Bool) Bool)",
        "(assert (forall ((q Bool)) q))",
        "(assert (bvadd b4 b4))",
        "(assert (= b4 #b1))",
        "(assert ((_ extract 9 0) b4))",
        "(assert (= (select b4 b4) b4))",
        "(get-value (b4))",
        "(get-unsat-core)",
        "(pop)",
        "(push 99999999)",
        "(assert)",
        "(set-logic QF_LIA)",
        "(declare-const b4 Bool)",
        "(assert (let b4 true))",
        "(assert (= b4 (_ bv1 0)))",
        "(assert (= b4 ((_ repeat 99999999) b4)))",
        "((assert true))",
        "()",
        ")",
        "garbage",
        '"text"',
        "(assert (= 1 1))",
        "(check-sat-assuming b4)",
        "(define-fun f ((x Bool) x) Bool x)",
    ],
)
def test_what_is_wrong_is_an_error_and_the_session_goes_on(wrong):
    found = _replies(f"(declare-const b4 (_ BitVec 4)) {wrong} (check-sat)")
    assert len(found) == 2 and found[0].startswith('(error "') and found[1] == "sat"
    assert "Traceback" not in found[0]


def test_unknown_commands_are_unsupported():
    assert (
        _replies("(declare-datatypes () ()) (minimize x) (set-option :x 1)") == ["unsupported"] * 3
    )


def test_deep_terms():
    depth = 3000
    script = "(declare-const x (_ BitVec 8))(assert (= x " + "(bvnot " * depth + "x" + ")" * depth
    found = _replies(script + "))(check-sat)")
    assert found == ["sat"]


def test_unfinished_text_is_an_error():
    assert _replies("(check-sat) (assert")[0] == "sat"
    assert _replies("(check-sat) (assert")[1].startswith("(error")
    assert [type(x) for x in read(") a b (c)")] == [Misread, list]


# --- spaces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_space_from_a_script_has_the_solutions_of_the_script(seed):
    """Counts by z3: models are blocked one after the other."""
    z3 = pytest.importorskip("z3", reason="z3-solver is not installed: pip install z3-solver")
    made = RandomScripts(seed)
    facts = "".join(f"(assert {made.rule(2).smt})" for _ in range(2))
    names = [name for name, w in made.widths.items() if w <= 4][:2]
    used = "".join(f"(assert (bvule {n} {n}))" for n in names)
    script = "".join(f"(declare-const {n} (_ BitVec {made.widths[n]}))" for n in made.widths)
    pins = "".join(
        f"(assert (= {n} (_ bv{k} {made.widths[n]})))"
        for k, n in enumerate(made.widths)
        if n not in names
    )
    script += facts + used + pins
    space = nelson.Space.from_smt2(script)
    solver, count = z3.Solver(), 0
    solver.from_string(script)
    while solver.check() == z3.sat and count <= 300:
        model = solver.model()
        known = [z3.BitVec(n, w) for n, w in made.widths.items()]
        solver.add(z3.Or([x != model.eval(x, model_completion=True) for x in known]))
        count += 1
    assert space.count() == count


def test_a_file_with_an_array(tmp_path):
    path = tmp_path / "bus.smt2"
    path.write_text(
        """(set-logic QF_ABV)
        (declare-fun a () (Array (_ BitVec 32) (_ BitVec 4)))
        (assert (! (bvult (select a #x00000000) (select a #x00000001)) :named rising))
        (check-sat) (get-model)"""
    )
    space = nelson.Space.load(path)
    assert list(space.fields) == ["(select a #x00000000)", "(select a #x00000001)"]
    assert space.count() == 16 * 15 / 2
    assert "rising: " in repr(space)


def test_scripts_that_are_no_space():
    with pytest.raises(FormulaError, match="unknown constant"):
        nelson.Space.from_smt2("(assert x)")
    wide = """(declare-fun a () (Array (_ BitVec 32) (_ BitVec 4))) (declare-const i (_ BitVec 32))
        (assert (= (select a i) #x3))"""
    with pytest.raises(FormulaError, match="index"):
        nelson.Space.from_smt2(wide)


def test_written_and_read_again():
    text = '(a |b c| "d ""e" (f) () #x0f :k)'
    assert written(read(text)[0]) == text
    assert re.fullmatch(r"\S+", written("x"))
