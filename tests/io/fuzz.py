"""Every reader of nelson on damaged files: the right result or a NelsonError, and nothing else.

    make fuzz CASES=1000000                           a night's work; prints its seed
    python -m tests.io.fuzz --cases 1000 --only npz   one kind of file
    python -m tests.io.fuzz --seed 7 --only npz --case 123     one case again, with its files kept

A *target* is a kind of file (or of folder): valid examples, and a function that reads a damaged one
in all the ways that nelson does and checks what comes out. A new reader needs one more entry in
`TARGETS`. Case k of a seed is a function of (seed, target, k). The number of the case in progress
is in a file whose name is printed first, so that a crash can be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gzip
import io
import json
import os
import random
import re
import resource
import secrets
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow

import nelson
from nelson import cluster
from nelson.cluster import parts
from nelson.cluster.read import read as read_job
from nelson.errors import NelsonError
from nelson.exact.circuit import build
from nelson.exact.circuit.decisions import DecisionCircuit, NnfCircuit, decisions_of, joined
from nelson.exact.circuit.draw import Draws, clauses_of
from nelson.formula import Formula
from nelson.io import sample_files, tables
from nelson.io.table_formats import vector
from nelson.kernels.core.bits import unpack
from nelson.learning import PAPER, Newton, Run
from nelson.learning.checkpoint import load_checkpoint
from nelson.learning.learn import learn
from nelson.learning.model import Model, load
from nelson.space import Space, TableModel
from nelson.space.load import load as load_any
from nelson.space.smt.session import Session
from nelson_paper.tasks.routes import tsplib
from nelson_paper.tasks.routes.data import from_table
from tests.formula import test_fuzz_dimacs
from tests.io import grammar
from tests.io.mutations import damaged, damaged_value
from tests.space.adapters.every_row import distinct_rows

FORMULA = nelson.Formula([[1, 2], [-1, 3]], n_vars=3)
DATA = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]] * 20, bool)

#: The files of one example: name -> content.
Files = dict[str, bytes]


class Target(NamedTuple):
    """examples: valid files. read: read a damaged example in a folder, and check the result.

    damage: (rng, name, content, content of another example) -> damaged content.
    """

    examples: Callable[[], list[Files]]
    read: Callable[[Path, Files, random.Random], None]
    damage: Callable[[random.Random, str, bytes, bytes], bytes] = damaged


# --- tables --------------------------------------------------------------------------------------


def written(kind: str, count: int = 130) -> bytes:
    """Samples as `nelson sample` writes them."""
    s = nelson.sample(FORMULA, None, count, seed=1)
    out = io.BytesIO()
    writer = sample_files.make_writer(kind, out, s.variables)
    writer.write(s.packed, len(s))
    writer.close({"seed": 1, "method": "lovasz"})
    return out.getvalue()


def saved(save: Callable[..., None], *args: Any, **arrays: Any) -> bytes:
    out = io.BytesIO()
    save(out, *args, **arrays)
    return out.getvalue()


def parquet_table() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"x1": DATA[:, 0], "x3": DATA[:, 2].astype(int), "x2": DATA[:, 1] + 0.0})
    return saved(lambda out: pq.write_table(table, out, row_group_size=30))


CSV = b"x1,x2,x3\n" + b"".join(b"%d,%d,%d\n" % tuple(row) for row in DATA[:10])
TEXT = [
    b"c two samples\nv 1 -2\nv 3 0\n-1 2 -3 0\n",
    b"3: 1 -2 3 0\n-1 2 3 0: 2\n1 2 3 0\n",
]
DIGITS = b"101\n0 1 1\n3: 011\n"


def read_table(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    path = folder / name
    n_vars = {"f.txt": rng.choice((None, 3)), "digits.txt": 3}.get(name)
    table = tables.read(path, n_vars)
    check_table(table)
    first, last = sorted((rng.randint(0, len(table.x)), rng.randint(0, len(table.x))))
    rows = tables.read_rows(path, lambda total: (first, last), n_vars)
    assert (rows.first, rows.total) == (first, len(table.x))
    assert np.array_equal(rows.table.x, table.x[first:last])
    assert rows.table.variables == table.variables
    if name.endswith((".npz", ".parquet")):
        x, variables, info = sample_files.read(path)
        assert np.array_equal(x, table.x) and variables == (table.variables or ())
        assert isinstance(info, dict)
    if name.endswith(".npz"):
        check_npz(path, table)


def check_table(table: tables.Table) -> None:
    assert table.x.dtype == bool and table.x.ndim == 2
    if table.variables is not None:
        assert len(table.variables) == table.x.shape[1] == len(set(table.variables))
        assert all(type(v) is int and 1 <= v < 2**31 for v in table.variables)
    if table.names is not None:
        assert len(table.names) == table.x.shape[1]
    # Shares far from 0 or 1 are not checked here, but every bit is read: memory checkers see it.
    assert 0 <= np.count_nonzero(table.x) <= table.x.size


def check_npz(path: Path, table: tables.Table) -> None:
    """NumPy reads the words as well: the plain way gives the same bits."""
    words = None
    with contextlib.suppress(Exception), np.load(path, allow_pickle=False) as file:
        words = np.ascontiguousarray(file["packed"], "<u8")
    if words is not None and table.variables is not None:
        octets = words.view(np.uint8).reshape(*words.shape, 8).transpose(0, 2, 1)
        plain = np.unpackbits(octets.reshape(-1, words.shape[1]), axis=0, bitorder="little")
        assert np.array_equal(plain[: len(table.x)].astype(bool), table.x)


def read_vector(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    assert vector(str(folder / name)).dtype == np.float64


# --- formulas ------------------------------------------------------------------------------------


def read_dimacs(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    f = Formula.from_dimacs(folder / name)
    if f.n_vars < 1000 and not f.n_aux:  # it can be written, and read again
        assert Formula.from_string(f.to_dimacs() or "") == f


def dimacs_examples() -> list[Files]:
    return [{"f.cnf": data} for data in test_fuzz_dimacs.SEEDS]


def damaged_dimacs(rng: random.Random, name: str, data: bytes, other: bytes) -> bytes:
    return test_fuzz_dimacs.mutated(rng)


def read_named_dimacs(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    space = Space.from_dimacs(folder / name)
    assert len(space.fields) == Formula.from_dimacs(folder / name).n_vars
    assert space.formula.n_vars >= len(space.fields)


UVL = [
    b'features\n    A {abstract, p 1.5}\n        or\n            "B c" {p -2}\n            C\n'
    b'        [0..1]\n            D {constraint D => C}\nconstraints\n    !"B c" | (C <=> D)\n'
    b"    sum(p) * 2 - A.p >= 1 // end\n",
    b"namespace N\ninclude\n    Boolean.*\nfeatures\n\tR\n\t\talternative\n"
    b"\t\t\tX\n\t\t\tY {v [1, 't']}\n",
]


SMT2 = (
    b"""(set-logic QF_ABV) ; a comment
(declare-const x (_ BitVec 4)) (declare-fun |b c| () Bool)
(declare-fun a () (Array (_ BitVec 8) (_ BitVec 2)))
(define-fun bit ((p Bool)) (_ BitVec 1) (ite p #b1 #b0))
(assert (! (let ((y (bvadd x #x3))) (or (bvult y x) |b c|)) :named n))
(push 1) (assert (= #b1 (bit (= (select a #x05) ((_ extract 1 0) x))))) (pop 1)
(assert (distinct (select (store a #x01 #b10) #x02) #b11))
(check-sat) (get-value (x (bvnot x))) (get-model) (echo "a") (exit)
""",
    b"(declare-const q (_ BitVec 3))(assert (=> (bvsle q #b011) (bvuge (bvudiv q #b010) #b001)))",
)


def read_smt2(folder: Path, files: Files, rng: random.Random) -> None:
    """As a space, and as a conversation, whose errors are replies."""
    (name,) = files
    text = files[name].decode(errors="replace")
    session = Session()
    for piece in (text[:40], text[40:]):
        session.reply(piece)
    session.finish()
    session.close()
    Space.from_smt2(folder / name)


def read_uvl(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    space = Space.from_uvl(folder / name)
    assert space.formula.n_vars >= len(space.fields) >= 1


# --- models, checkpoints, jobs -------------------------------------------------------------------


def content(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def model_examples() -> list[Files]:
    f = Formula([[1, 2, 3]], n_vars=4).exactly([1, 2, 3, 4], 2).xor([1, 4], False)
    long = Formula([], n_vars=12).xor(range(1, 13)).linear(range(1, 13), range(1, 13), "<=", 20)
    models = [
        Model(FORMULA, np.array([0.5, -1.0, 0.0]), ("a", "b", "c"), {"why": "a test"}),
        Model(FORMULA, np.zeros(3), terms={(1, 2): 0.7, (1, 3): -0.2}),
        Model(f, np.zeros(4), metadata={"settings": {"eta": 1.0}, "converged": True}),
        Model(long, np.zeros(12)),
    ]
    examples = []
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            files = content(Path(folder))
            del files["README.md"]
            examples.append(files)
    return examples


def read_model(folder: Path, files: Files, rng: random.Random) -> None:
    model = load(folder)
    f = model.formula
    assert model.theta is None or model.theta.dtype == np.float64
    assert model.names is None or len(model.names) == f.n_vars
    f.satisfied(np.zeros((2, f.n_vars), bool))
    if rng.random() < 0.1 and model.theta is not None:
        drawn = model.sample(3, seed=1, seconds=5).to_numpy()
        # The samples follow formula.cnf; damaged constraints of model.json may say something else.
        assert f.constraints or f.satisfied(drawn).all()
        model.save(folder / "again")


def table_model_examples() -> list[Files]:
    space = Space("shop")
    space.choice("size", ["S", "M", "L"])
    space.integer("n", 0, 500)
    space.bins("age", [0, 18, 65, 120])
    space.flag("set", ["a", "b"])
    space.require('implies(size == "L", n < 100)', "set.a or set.b")
    rows = space.sample(200, seed=0)
    tables = [rows, rows.to_pandas()]
    examples = []
    for table, pairs in zip(tables, ([], [("size", "n")]), strict=True):
        model = space.learn(table, pairs, bins={"n": 3}, seed=0)
        model.log_prob(rows[:1])
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            files = content(Path(folder))
            del files["README.md"]
            examples.append(files)
    return examples


def read_table_model(folder: Path, files: Files, rng: random.Random) -> None:
    model = load_any(folder)
    if not isinstance(model, TableModel):
        return
    assert len(repr(model)) > 10
    if rng.random() < 0.1:
        drawn = model.rows(3, seed=1, seconds=5)
        assert model.space.satisfied(drawn).all()
        model.save(folder / "again")


def checkpoint_examples() -> list[Files]:
    examples = []
    for options in (Newton(iterations=3), replace(PAPER, iterations=4), Newton(iterations=500)):
        with tempfile.TemporaryDirectory() as folder:
            learn(FORMULA, DATA, seed=1, run=Run(checkpoint=folder), optimizer=options)
            files = content(Path(folder))
            state = json.loads(files["checkpoint.json"])
            for row in state["history"]:  # times differ from run to run, and cases must not
                row |= {"sampling": 0.5, "update": 0.5}
            examples.append(files | {"checkpoint.json": json.dumps(state).encode()})
    return examples


def read_checkpoint(folder: Path, files: Files, rng: random.Random) -> None:
    if load_checkpoint(folder) is not None and rng.random() < 0.3:
        known = PAPER if b'"sgd"' in files["checkpoint.json"] else Newton()
        options = {"optimizer": replace(known, iterations=5), "run": Run(checkpoint=folder)}
        fit = learn(FORMULA, DATA, seed=1, **options)
        assert fit.theta is not None and np.isfinite(fit.theta).all()


def job_examples() -> list[Files]:
    found = []
    for options in ({}, {"columns": True}, {"shard": "1/2"}):
        with tempfile.TemporaryDirectory() as folder:
            cluster.sample(FORMULA, None, 100, folder, seed=1, part_rows=64, **options)
            found.append(content(Path(folder)))
    return found


def damaged_job(rng: random.Random, name: str, data: bytes, other: bytes) -> bytes:
    """With a valid seal, most of the time."""
    if name == parts.JOB and rng.random() < 0.7:
        known = json.loads(parts.metadata_of(data)["job"])
        text = json.dumps(damaged_value(rng, known))
        schema = pyarrow.schema([("x", pyarrow.binary(1))])
        return parts._encoded(schema, (), {"job": text, "guarantee": "exact"}, packed=True)[0]
    changed = damaged(rng, name, data, other)
    return parts.sealed(changed) if rng.random() < 0.7 else changed


def read_job_folder(folder: Path, files: Files, rng: random.Random) -> None:
    job = read_job(folder, partial=len(files) < 3 or rng.random() < 0.3, check=rng.random() < 0.3)
    rows = sum(len(block) for block in job.blocks(50))
    assert rows <= 10_000
    assert job.samples(0, 30).to_numpy().dtype == bool
    repr(job)
    assert len(job.names) == len(job.variables)


# --- circuits ------------------------------------------------------------------------------------

NNF = [
    b"o 1 0\nt 2 0\n1 2 1 2 0\n1 2 1 -2 0\n1 2 -1 3 0\n1 2 -1 -3 4 0\n",
    b"o 1 0\na 2 0\nf 3 0\nt 4 0\n2 3 1 0\n2 4 2 0\n1 2 -1 0\n1 4 1 3 0\n",
    b"o 1 0\na 2 0\no 3 0\nt 4 0\n3 4 3 0\n3 4 -3 4 0\n2 3 0\n2 4 2 -1 0\n1 2 -1 0\n1 4 1 0\n",
    b"a 1 0\na 2 0\na 3 0\nt 4 0\no 5 0\n5 4 1 0\n5 4 -1 2 0\n3 5 0\n2 3 3 0\n1 2 4 0\n",
]


def read_nnf(folder: Path, files: Files, rng: random.Random) -> None:
    """The text of a compiler. Its reader raises ValueError, which `build` reports."""
    (name,) = files
    data = (folder / name).read_bytes()
    try:
        circuit = NnfCircuit.parse(data)
        variables = int(np.abs(circuit.literals).max(initial=0))
        if variables > 100_000 or len(circuit.kind) > 1_000_000:
            return  # as large as its text says; no error
        decided = decisions_of(circuit, np.arange(max(4, variables)))
        circuit.log_value(np.log(np.full((max(4, variables), 2), 0.5)))
    except ValueError as error:
        raise NelsonError(str(error)) from None
    if decided is not None and decided.sound():
        use_circuit(decided, Formula([], n_vars=decided.n))


def circuit_examples() -> list[Files]:
    examples = []
    for text in NNF:
        part = decisions_of(NnfCircuit.parse(text), np.arange(4))
        assert part is not None
        whole = joined([part], np.zeros(0, np.int32), 4)
        examples.append({"c.npz": saved(np.savez, n=np.int64(4), **whole.arrays)})
    return examples


def read_circuit(folder: Path, files: Files, rng: random.Random) -> None:
    os.environ["NELSON_CACHE_DIR"] = str(folder)
    (folder / "circuits").mkdir(exist_ok=True)
    shutil.copy(folder / "c.npz", folder / "circuits" / "c.npz")
    circuit = build.load_cached("c", 4)
    if circuit is None:
        raise NelsonError("counts as missing")
    use_circuit(circuit, Formula([], n_vars=4))


def use_circuit(circuit: DecisionCircuit, formula: Formula) -> None:
    """Values, means and samples. Arrays of a circuit that is none may give any numbers."""
    theta = np.linspace(-1, 1, 2 * circuit.n).reshape(2, circuit.n)
    log_p, mean = circuit.solve(theta, means=True)
    assert log_p.shape == (2,) and mean.shape == theta.shape
    columns = np.arange(circuit.n)
    for expected in (10, 1000):
        check = clauses_of(formula)
        draws = Draws(circuit, theta, columns, check, 1, np.arange(2), 1, expected=expected)
        block = draws.block(0, 70)
        assert unpack(block.packed[0], 70).shape == (70, circuit.n)


# --- tasks ---------------------------------------------------------------------------------------

TSP = [
    b"NAME : toy\nTYPE : TSP\nDIMENSION : 4\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n"
    b"1 0 0\n2 0 3\n3 4 0\n4 4 3\nEOF\n",
    b"NAME: m\nTYPE: ATSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
    b"EDGE_WEIGHT_FORMAT: FULL_MATRIX\nEDGE_WEIGHT_SECTION\n0 1 2\n1 0 3\n2 3 0\nEOF\n",
    b"NAME: g\nTYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: GEO\nDISPLAY_DATA_SECTION\n1 1 1\n2 2 2\n"
    b"3 3 1\nNODE_COORD_SECTION\n1 49.30 8.26\n2 50.1 9\n3 48.05 11.3\n",
]


def read_tsplib(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    instance = tsplib.read(folder / name)
    n = len(instance.ids)
    assert instance.distances.shape == (n, n) and instance.places.shape == (n, 2)


def read_places(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    places, names = from_table(folder / name)
    assert np.isfinite(places).all() and (names is None or len(names) == len(places))


# --- spaces ---------------------------------------------------------------------------------------

SPACES = [
    b"""name = "bus"  # one kind of each
rules = [
  "addr + len <= 0xFF",
  'implies(burst == "WRAP", len in [2, 4, 8])',
]
[fields]
addr  = { integer = [0, 0xFF] }
len   = { integer = [-1, 15] }
burst = { choice = ["FIXED", "INCR", "WRAP"] }
write = "flag"
opts  = { flags = ["a", "b"] }
[weights.burst]
FIXED = 60
[shares]
write = 0.25
""",
    b"""[fields.x]
choice = [1, 2, 5]
[fields.y]
choice = ["a", 2.5, true]
[[rules]]
name = "small"
rule = '''
x < 5'''
[[rules]]
rule = "count(x == 1, y == 'a') >= 1"
[weights]
"x > 1" = 3.5
""",
]


#: Names, numbers and operators of a space file; brackets and quotes are left to other damage.
SPACE_WORD = re.compile(rb"\w+|[<=>!]=|[-+*%<>]")
SPACE_WORDS = [
    *(b"0", b"1", b"2", b"-3", b"255", b"0x1FFFF", b"1e9", b"2.5", b"1" * 50, b"true", b"nan"),
    *(b"x", b"y", b"addr", b"len", b"burst", b"write", b"opts.a", b"opts", b'"flag"', b"'a'"),
    *(b"+", b"*", b"%", b"//", b"<<", b"&", b"|", b"^", b"<", b"==", b"in", b"and", b"or", b"not"),
    *(b"(", b")", b"[", b"]", b",", b"range(300)", b"distinct(x, x)", b"x[0]", b"x.y", b"**"),
    *(b"{ choice = [1, 2] }", b"{ integer = [0, 1000] }", b"weights", b"shares", b"rules"),
]


def damaged_space(rng: random.Random, name: str, data: bytes, other: bytes) -> bytes:
    """Damage to bytes, or other words, which often leave the file readable."""
    if rng.random() < 0.4:
        return damaged(rng, name, data, other)
    for _ in range(rng.choice((1, 1, 2))):
        words = list(SPACE_WORD.finditer(data))
        if words:
            at = rng.choice(words)
            with_this = rng.choice([*SPACE_WORDS, rng.choice(words)[0], b"", at[0] + b" " + at[0]])
            data = data[: at.start()] + with_this + data[at.end() :]
    return data


def read_space(folder: Path, files: Files, rng: random.Random) -> None:
    (name,) = files
    space = nelson.Space.load(folder / name)
    assert space.fields and space.formula.n_vars < 100_000
    space.save(folder / "again.toml")
    again = nelson.Space.load(folder / "again.toml")
    assert list(again.fields) == list(space.fields) and len(again.rules) == len(space.rules)
    again.save(folder / "third.toml")
    last = nelson.Space.load(folder / "third.toml")
    assert [str(r.rule) for r in last.rules] == [str(r.rule) for r in again.rules]


# --- programs in the languages of rules and of UVL ------------------------------------------------

#: Most CPU seconds and most memory for one program: a hang, or a size that was not looked at.
PROGRAM_SECONDS, PROGRAM_BYTES = 20.0, 2 << 30
SEED_OF_PROGRAM = re.compile(rb"(?:#|//) grammar (\S+)\n")


def program(make: Callable[[object], grammar.Program], comment: str, seed: object) -> bytes:
    return f"{comment} grammar {seed}\n{make(seed).text}".encode()


def programs(make: Callable[[object], grammar.Program], comment: str, suffix: str) -> Target:
    """Programs of a grammar: the right rows, or an error of ours with the file."""

    def examples() -> list[Files]:
        return [{f"f{suffix}": program(make, comment, k)} for k in range(30)]

    def damage(rng: random.Random, name: str, data: bytes, other: bytes) -> bytes:
        seed = rng.randrange(2**60)
        if rng.random() < 0.5:
            return program(make, comment, seed)
        return grammar.nearly(rng, make(seed).text).encode()

    def read(folder: Path, files: Files, rng: random.Random) -> None:
        (name,) = files
        started = time.process_time()
        with limited(PROGRAM_BYTES):
            try:
                space = Space.load(folder / name)
            except NelsonError as error:
                if getattr(error, "source", None) is None or len(str(error)) > 3000:
                    raise AssertionError(f"no file, or too long: {error}") from error
                raise
            known = SEED_OF_PROGRAM.match(files[name])
            if known is not None:
                assert distinct_rows(space) == make(known[1].decode()).legal
            for rule in space.rules if rng.random() < 0.2 else ():
                repr(rule)
        assert time.process_time() - started < PROGRAM_SECONDS

    return Target(examples, read, damage)


@contextlib.contextmanager
def limited(more: int) -> Iterator[None]:
    """MemoryError if this process takes `more` bytes of addresses."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = used + more
    if before != resource.RLIM_INFINITY:
        limit = min(limit, before)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


# --- all of them ---------------------------------------------------------------------------------


def each(suffix: str, *contents: Callable[[], bytes] | bytes) -> Callable[[], list[Files]]:
    """Examples of one file each."""
    return lambda: [{f"f{suffix}": c() if callable(c) else c} for c in contents]


TARGETS: dict[str, Target] = {
    "dimacs": Target(dimacs_examples, read_dimacs, damaged_dimacs),
    "dimacs bytes": Target(dimacs_examples, read_dimacs),
    "dimacs gz": Target(
        each(".cnf.gz", gzip.compress(test_fuzz_dimacs.SEEDS[0], mtime=0)), read_dimacs
    ),
    "dimacs names": Target(
        each(
            ".cnf", b"c 1 Car\nc 2 Tow bar\np cnf 3 2\n-2 1 0\nx 1 3 0\n", *test_fuzz_dimacs.SEEDS
        ),
        read_named_dimacs,
    ),
    "uvl": Target(each(".uvl", *UVL), read_uvl),
    "smt2": Target(each(".smt2", *SMT2), read_smt2),
    "rules": programs(grammar.rules, "#", ".toml"),
    "uvl programs": programs(grammar.uvl, "//", ".uvl"),
    "npz": Target(
        each(
            ".npz",
            lambda: written("npz"),
            lambda: written("npz", 64),
            lambda: saved(np.savez, x=DATA),
            lambda: saved(np.savez_compressed, a=DATA.astype(int)),
        ),
        read_table,
    ),
    "npy": Target(
        each(
            ".npy",
            lambda: saved(np.save, DATA),
            lambda: saved(np.save, np.asfortranarray(DATA.astype(float))),
        ),
        read_table,
    ),
    "parquet": Target(each(".parquet", lambda: written("parquet"), parquet_table), read_table),
    "csv": Target(each(".csv", CSV, CSV.replace(b",", b"\t"), CSV[9:]), read_table),
    "csv gz": Target(each(".csv.gz", lambda: gzip.compress(CSV, mtime=0)), read_table),
    "text": Target(
        lambda: [*({"f.txt": text} for text in TEXT), {"digits.txt": DIGITS}], read_table
    ),
    "weights": Target(each(".npy", lambda: saved(np.save, np.zeros(3))), read_vector),
    "weights text": Target(each(".txt", b"0.5\n-1 # theta\n0\n"), read_vector),
    "model": Target(model_examples, read_model),
    "table model": Target(table_model_examples, read_table_model),
    "checkpoint": Target(checkpoint_examples, read_checkpoint),
    "job": Target(job_examples, read_job_folder, damaged_job),
    "circuit text": Target(each(".nnf", *NNF), read_nnf),
    "circuit": Target(circuit_examples, read_circuit),
    "tsplib": Target(each(".tsp", *TSP), read_tsplib),
    "places": Target(each(".csv", b"name,x,y\na,0,0\nb,1,2.5\nc,3,-1\n"), read_places),
    "space": Target(each(".toml", *SPACES), read_space, damaged_space),
    # Readers of further formats go here: one line each.
}

_EXAMPLES: dict[str, list[Files]] = {}


def examples_of(name: str) -> list[Files]:
    if name not in _EXAMPLES:
        _EXAMPLES[name] = TARGETS[name].examples()
    return _EXAMPLES[name]


def one_case(name: str, rng: random.Random, folder: Path, damage: bool = True) -> bool:
    """Write a damaged example into the folder and read it. -> was it read (False: refused)

    Any other end is an error of nelson, and is raised.
    """
    target, examples = TARGETS[name], examples_of(name)
    files = dict(rng.choice(examples))
    if damage:
        hit = rng.choice(list(files))
        other = rng.choice(examples)
        files[hit] = target.damage(rng, hit, files[hit], rng.choice(list(other.values())))
    # Where Hypothesis draws, what is drawn must not depend on what a reader does, or on its clock.
    reader = random.Random(rng.getrandbits(64))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.read(folder, files, reader)
        except NelsonError as error:
            if not str(error):
                raise AssertionError("an error without a message") from error
            return False
    return True


def rng_of(seed: int, name: str, case: int) -> random.Random:
    return random.Random(f"{seed}/{name}/{case}")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory, where there is one: a million small files."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nelson-fuzz-", dir=memory) as folder:
        before = os.environ.get("NELSON_CACHE_DIR")
        try:
            yield Path(folder)
        finally:
            os.environ.pop("NELSON_CACHE_DIR", None)
            if before is not None:
                os.environ["NELSON_CACHE_DIR"] = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=float, default=10_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", action="append", choices=list(TARGETS))
    parser.add_argument("--case", type=int, default=None, help="this one alone; keep its files")
    parser.add_argument("--most-failures", type=int, default=20)
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    names = given.only or list(TARGETS)
    faulthandler.enable()
    # What a file claims must not take the memory of the machine: MemoryError comes first.
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.RLIM_INFINITY))
    if given.case is not None:
        folder = Path(tempfile.mkdtemp(prefix="nelson-fuzz-case-"))
        print(f"files: {folder}/files", flush=True)
        print("read" if one_case(names[0], rng_of(seed, names[0], given.case), folder / "files")
              else "refused")  # fmt: skip
        return 0
    counts = {name: [0, 0, 0] for name in names}  # read, refused, failed
    with tempfile.NamedTemporaryFile("w", prefix="nelson-fuzz-at-", delete=False) as at:
        print(f"seed {seed}; the case in progress is in {at.name}", flush=True)
        with scratch() as folder:
            failures = run(names, seed, int(given.cases), folder, counts, at, given.most_failures)
    os.unlink(at.name)
    for name, (good, refused, failed) in counts.items():
        print(f"{name:14}{good:>9,} read{refused:>10,} refused{failed:>6,} failed")
    print(f"seed {seed}: {sum(map(sum, counts.values())):,} cases, {failures} failures")
    return 1 if failures else 0


def run(
    names: list[str],
    seed: int,
    cases: int,
    folder: Path,
    counts: dict[str, list[int]],
    at: Any,
    most: int,
) -> int:
    failures, told = 0, time.monotonic()
    for k in range(-(-cases // len(names))):
        faulthandler.dump_traceback_later(600, exit=True)  # a hang is a failure too
        for name in names:
            os.pwrite(at.fileno(), f"--seed {seed} --only '{name}' --case {k:<12}\n".encode(), 0)
            try:
                counts[name][not one_case(name, rng_of(seed, name, k), folder / "files")] += 1
            except Exception:
                counts[name][2] += 1
                failures += 1
                print(f"\n--seed {seed} --only '{name}' --case {k}\n{traceback.format_exc()}")
                if failures >= most:
                    return failures
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{(k + 1) * len(names):,} cases, {failures} failures", flush=True)
    faulthandler.cancel_dump_traceback_later()
    return failures


if __name__ == "__main__":
    sys.exit(main())
