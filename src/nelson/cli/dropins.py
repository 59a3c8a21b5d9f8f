"""`nelson-cmsgen`, `nelson-unigen`, `nelson-approxmc`, `nelson-ganak`: instead of the originals.

Scripts that call cmsgen, unigen, approxmc or ganak call these: options, default files, what is
printed and exit codes are those of the originals, samples and counts are ours. `DIALECTS` has one
entry for each. stdout has only lines that the original prints, too; what we have to say, such as a
guarantee that is weaker than exact, is on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from nelson._version import __version__
from nelson.cli.interrupt import (
    interrupted_code,
    interruption_waits_for_no_thread,
    leave_on_signals,
    signals_raise,
)
from nelson.errors import NelsonError, Unsatisfiable

if TYPE_CHECKING:
    from nelson.formula import Formula

#: Exit codes: of `exit(-1)`, of SAT solvers, and after SIGPIPE.
MINUS_ONE, SAT, UNDECIDED, UNSAT, BROKEN_PIPE = 255, 10, 15, 20, 141
#: A count goes on until it is done, as those of the originals.
FOREVER = 2e6
#: Samples that are drawn and written at once.
BLOCK = 65536


@dataclass(frozen=True)
class Dialect:
    """One of the originals, as scripts know it."""

    name: str
    summary: str
    example: str
    seed: int  # that of a call without --seed
    run: Callable[[argparse.Namespace], int]
    #: Options besides -v, -s and --help: name -> (default, help).
    options: dict[str, tuple[Any, str]]
    #: Options that steer the original's search: taken, without effect. "*": any other one.
    tuning: str = ""
    missing: int = MINUS_ONE  # exit code if the file cannot be opened


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(message, file=sys.stderr)
        self.print_usage(sys.stderr)
        raise SystemExit(MINUS_ONE)


def main(name: str) -> NoReturn:
    """Entry point of `nelson-<name>`."""
    leave_on_signals()
    gc.set_threshold(200_000)
    sys.set_int_max_str_digits(0)  # counts may have any number of digits
    dialect = DIALECTS[name]
    asked = _parsed(dialect, sys.argv[1:])
    try:
        with signals_raise():
            code = dialect.run(asked)
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        code = interrupted_code()
    except FileNotFoundError as error:
        _say(f"ERROR! Could not open file '{error.filename}' for reading: {error.strerror}")
        code = dialect.missing
    except (NelsonError, OSError, ValueError, ImportError, MemoryError) as error:
        _say(f"ERROR: {error}")
        code = 1 if dialect.name == "ganak" else MINUS_ONE
    with interruption_waits_for_no_thread():
        raise SystemExit(code)


def _parsed(dialect: Dialect, words: list[str]) -> argparse.Namespace:
    parser = _Parser(
        f"nelson-{dialect.name}",
        description=dialect.summary,
        epilog=f"Example: {dialect.example}",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"nelson {__version__}")
    parser.add_argument("-v", "--verb", type=int, default=1, metavar="N", help="0: fewer lines")
    parser.add_argument("-s", "--seed", type=int, default=dialect.seed, metavar="N", help="seed")
    for option, (default, text) in dialect.options.items():
        if default is False:
            parser.add_argument(option, action="store_true", help=text)
            continue
        kind, shown = type(default), "N" if isinstance(default, int) else "FILE"
        parser.add_argument(option, type=kind, default=default, metavar=shown, help=text)
    for option in dialect.tuning.split():
        if option != "*":
            parser.add_argument(option, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a CNF in DIMACS")
    asked, others = parser.parse_known_intermixed_args(words)
    if others and "*" not in dialect.tuning:
        parser.error(f"Unknown argument: {others[0]}")
    if others:  # --name value: the values look like files
        values = {words[k + 1] for k, w in enumerate(words[:-1]) if w in others and "=" not in w}
        asked.files = [file for file in asked.files if file not in values]
        _say(f"no effect here: {' '.join(w for w in others if w.startswith('-'))}")
    if asked.seed < 0:
        asked.seed += 2**32  # the originals read it as an unsigned number
    asked.command = " ".join([parser.prog, *words])
    return asked


def _say(text: str) -> None:
    print(f"nelson: {text}", file=sys.stderr)


def _comment(asked: argparse.Namespace, text: str) -> None:
    """A line that starts with c, unless the original is told to be silent."""
    if asked.verb:
        print(f"c {text}", flush=True)


def _formula(file: str) -> tuple[Formula, bytes]:
    """The formula in a file, and the text."""
    from nelson.cli.inputs import named_bytes
    from nelson.formula import Formula

    if file != "-":
        open(file, "rb").close()  # FileNotFoundError has an exit code of its own
    source = named_bytes(file)
    return Formula.from_dimacs(source), source.getvalue()


def _shown(formula: Formula) -> list[int]:
    """The sampling set: `c ind` and `c p show` lines, else all variables."""
    shown = formula.projection
    return list(range(1, formula.n_vars + 1)) if shown is None else list(shown)


def _announce(asked: argparse.Namespace, formula: Formula) -> None:
    _comment(asked, f"o executed with command line: {asked.command}")
    print("c o ind", *_shown(formula), 0)


# --- samples --------------------------------------------------------------------------------------


def _write(
    formula: Formula,
    theta: Any,
    n: int,
    seed: int,
    out: BinaryIO,
    whole: bool,
    line: str | None = None,
) -> int:
    """Write n samples, one a line. -> how many there are. Raises Unsatisfiable.

    whole   values of all variables, not only of the sampling set
    line    "v {} 0:1": another form of a line than "1 -2 3 0"
    """
    import numpy as np

    from nelson.budget import Budget
    from nelson.exact.solver import completed
    from nelson.io.sample_files import make_writer
    from nelson.kernels.core.bits import pack
    from nelson.sampling.sample_stream import stream

    shown, every = _shown(formula), list(range(1, formula.n_vars + 1))
    hidden = np.array(sorted(set(every) - set(shown)), np.int64)
    # Weights of hidden variables: the law of all solutions.
    projected = len(hidden) > 0 and (theta is None or not theta[hidden - 1].any())
    columns = every if whole else shown
    writer = make_writer("text", out, columns)
    blocks = stream(
        formula,
        theta,
        n,
        block=max(1, min(BLOCK, n)),
        project=shown if projected else columns,
        project_law="solutions" if projected else "marginal",
        seed=seed,
    )
    written, warning, random = 0, "", np.random.default_rng(seed)
    for block in blocks:
        if block.guarantee != "exact":
            warning = warning or f"the samples are {block.guarantee}: {block.why}"
        written += block.count
        if line is None and not (whole and projected):
            writer.write(block.packed, block.count)
            continue
        rows = block.to_numpy()
        if whole and projected:
            at = np.array(shown, np.int64) - 1
            full = random.integers(0, 2, (len(rows), formula.n_total)) > 0
            full[:, at] = rows
            rows = completed([list(c) for c in formula], at, full, Budget())[:, : formula.n_vars]
        if line is None:
            writer.write(pack(rows), len(rows))
            continue
        signs = np.where(rows, np.array(columns), -np.array(columns))
        for row in signs.tolist():
            out.write(f"{line.format(' '.join(map(str, row)))}\n".encode())
    writer.close({})
    if warning:
        _say(warning)
    if written < n:
        _say(f"{written:,} of {n:,} samples were found within the limits of nelson")
    return written


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    """A file, which appears when it is complete; None: stdout."""
    from nelson.io.atomic import writing

    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with writing(path) as file:
            yield file


def _cmsgen(asked: argparse.Namespace) -> int:
    if len(asked.files) > 1:
        print("ERROR: you can only pass at most one positional parameters: an INPUT file")
        return MINUS_ONE
    _comment(asked, f"executed with command line: {asked.command}")
    formula, _ = _formula(asked.files[0] if asked.files else "-")
    theta = formula.theta
    if formula.projection is not None:
        shown = ",".join(map(str, formula.projection))
        few = f"vars set (total num: {len(formula.projection)} ) : {shown}"
        too_many = "var set contains over 100 variables, not displaying"
        print(f"c Sampling {few if len(formula.projection) <= 100 else too_many}")
    print(f"c Writing samples to file: {asked.samplefile}", flush=True)
    try:
        with _opened(asked.samplefile) as out:
            written = _write(formula, theta, asked.samples, asked.seed, out, whole=True)
    except Unsatisfiable:
        with _opened(asked.samplefile):
            pass
        print("WARNING: No samples generated, CNF is unsatisfiable")
        return UNSAT
    if written < asked.samples:
        return UNDECIDED
    print(f"c Finished generating all {written} samples")
    return SAT


def _unigen(asked: argparse.Namespace) -> int:
    if not asked.files:
        print("ERROR: you need to provide an input file. Exiting.")
        return MINUS_ONE
    formula, _ = _formula(asked.files[0])
    _announce(asked, formula)
    # The unigen that Barbarik calls has the output as second argument, and other lines.
    old = asked.files[1] if len(asked.files) > 1 else None
    line = "v {} 0:1" if old else None
    return _almost_uniform(asked, formula, old or asked.sampleout or None, line)


def _almost_uniform(
    asked: argparse.Namespace, formula: Formula, path: str | None, line: str | None
) -> int:
    try:
        with _opened(path) as out:
            written = _write(formula, None, asked.samples, asked.seed, out, False, line)
    except Unsatisfiable:
        print("c o [unig] The input formula is unsatisfiable.")
        return MINUS_ONE
    return 0 if written == asked.samples else MINUS_ONE


# --- counts ---------------------------------------------------------------------------------------


def _approxmc(asked: argparse.Namespace) -> int:
    from nelson.sampling.solution_count import solution_count

    if not asked.files:
        print("ERROR: you need to provide an input file. Exiting.")
        return MINUS_ONE
    formula, _ = _formula(asked.files[0])
    if asked.samples:  # the approxmc that Barbarik calls
        return _almost_uniform(asked, formula, asked.sampleout or None, "1:{} 0")
    _announce(asked, formula)
    cells, hashes, why = solution_count(formula, _shown(formula), asked.seed)
    if why:
        _say(f"the count is approximate (epsilon 0.8, delta 0.2): {why}")
    print(f"c [appmc] Number of solutions is: {cells}*2**{hashes}*1")
    print("s SATISFIABLE" if cells else "s UNSATISFIABLE")
    print(f"s mc {cells << hashes}")
    return 0


def _ganak(asked: argparse.Namespace) -> int:
    from fractions import Fraction

    from nelson.exact.queries import count

    if len(asked.files) > 1:
        _say(f"ERROR: you must only give one CNF as input; you gave {' '.join(asked.files)}")
        return 1
    if asked.mode not in (0, 1, 7):
        _say(f"ERROR: --mode {asked.mode}: this command has 0, 1 and 7")
        return 1
    _comment(asked, f"o called with: {asked.command}")
    formula, text = _formula(asked.files[0] if asked.files else "-")
    is_weighted = formula.theta is not None
    if is_weighted and asked.mode == 0:
        _say("ERROR: the file has weights: --mode 1 (rational numbers) or --mode 7 counts them")
        return 1
    shown = _shown(formula)
    kind = ("p" if formula.projection is not None else "") + ("wmc" if asked.mode else "mc")
    total: Fraction | int
    if asked.mode:
        total = _weighted(formula, shown, text)
    else:
        total = count(formula, seconds=FOREVER, project=shown)
    print("s SATISFIABLE" if total else "s UNSATISFIABLE")
    print(f"c s type {kind}")
    log10 = math.log10(total.numerator) - math.log10(total.denominator) if total else -math.inf
    print(f"c s log10-estimate {log10:.8e}")
    if asked.mode == 0:
        print(f"c s exact arb int {total}")
    elif asked.mode == 1:
        print(f"c o exact quadruple float {_scientific(total)}")
        print(f"c s exact arb frac {total}")
    else:
        print(f"c s exact quadruple float {_scientific(total)}")
    print("c s pac guarantees epsilon: 0 delta: 0")
    return 0


def _scientific(number: Any) -> str:
    """As the format %.8e of C, for fractions of any size."""
    from decimal import Decimal

    value = Decimal(number.numerator) / Decimal(number.denominator)
    digits, _, power = f"{value:.8e}".partition("e")
    return f"{digits}e{int(power):+03d}"


def _weights(text: bytes) -> dict[int, Any]:
    """The weights in `c p weight` lines. The reader of formulas, which keeps quotients only, has
    checked them. A literal whose negation alone has a weight W gets 1 - W, or 1 if W > 1.
    """
    from fractions import Fraction

    lines = re.findall(rb"^c p weight (-?\d+) (\S+)", text, re.MULTILINE)
    weights = {int(literal): Fraction(number.decode()) for literal, number in lines}
    lone = {-x: 1 - w if w <= 1 else Fraction(1) for x, w in weights.items() if -x not in weights}
    return weights | lone


def _weighted(formula: Formula, shown: list[int], text: bytes) -> Any:
    """The sum of the weights of the projected solutions, as a fraction."""
    from nelson.errors import BudgetExceeded, FormulaError
    from nelson.exact.circuit import solutions
    from nelson.exact.compiled import compiled, why_not
    from nelson.exact.projection import projected

    weights = _weights(text)
    hidden = {abs(x) for x in weights} - set(shown)
    if hidden:
        raise FormulaError(f"a weight of variable {min(hidden)}, which c p show leaves out")
    try:
        projection = projected(formula, shown)
        if projection.formula is None:
            raise BudgetExceeded(f"no count: {projection.why}")
        circuit = compiled(projection.formula)
        if circuit is None:
            raise BudgetExceeded(f"no count: {why_not(projection.formula)}")
    except Unsatisfiable:
        return 0
    return solutions.weighted(circuit.circuit, weights)


# --- the table ------------------------------------------------------------------------------------

_SAMPLEOUT = {"--sampleout": ("", "where they are written; default: stdout")}
#: What steers the hashing of unigen and approxmc.
_HASHING = (
    "-e --epsilon -d --delta --arjun --sparse --reusemodels --verbanbcls --verbcls --simplify "
    "--velimratio --forcesolextension --withe --eiter1 --eiter2 --evivif --esparsif --egetreds "
    "--dumpintercnf --debug --backbone --kappa --multisample --verbsamplercls"
)
DIALECTS = {
    each.name: each
    for each in (
        Dialect(
            "cmsgen",
            "Samples of a CNF (c ind: sampling set; w VAR P: weights), as cmsgen writes them. Exit "
            "code 10; 20 if unsatisfiable.",
            "nelson-cmsgen --samples 50 --seed 1 --samplefile mysamples.out input.cnf",
            0,
            _cmsgen,
            {
                "--samples": (100, "how many"),
                "--samplefile": ("samples.out", "where they are written"),
            },
            "--fixedconfl",
            missing=1,
        ),
        Dialect(
            "unigen",
            "Samples over the sampling set of a CNF (c ind, c p show), as unigen prints them. Exit "
            "code 0; 255 if unsatisfiable.",
            "nelson-unigen --samples 50 --seed 1 --sampleout mysamples.out input.cnf",
            1,
            _unigen,
            {
                "--samples": (500, "how many"),
                **_SAMPLEOUT,
            },
            _HASHING,
        ),
        Dialect(
            "approxmc",
            "The number of solutions over the sampling set of a CNF (c ind, c p show), as approxmc "
            "prints it: s mc N.",
            "nelson-approxmc --seed 5 input.cnf",
            1,
            _approxmc,
            {
                "--samples": (0, "draw as many samples instead, as approxmc 3 did"),
                **_SAMPLEOUT,
            },
            _HASHING,
        ),
        Dialect(
            "ganak",
            "The number of solutions of a CNF (c p show, c p weight), as ganak prints it: "
            "c s exact arb int N.",
            "nelson-ganak --mode 0 input.cnf",
            0,
            _ganak,
            {
                "--mode": (
                    0,
                    "0: integers; 1: weights, as rational numbers; 7: the same in floating point",
                ),
                "--fast": (False, "no effect, as all other options of ganak"),
            },
            "*",
            missing=1,
        ),
    )
}

approxmc, cmsgen, ganak, unigen = (
    partial(main, name) for name in ("approxmc", "cmsgen", "ganak", "unigen")
)
