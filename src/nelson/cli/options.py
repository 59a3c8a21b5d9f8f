"""Arguments and options that several commands take: each is declared here once, with its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

# --- input --------------------------------------------------------------------------------------

FormulaFile = Annotated[
    str, typer.Argument(metavar="FILE", help="DIMACS file (.gz, .xz); - is stdin.")
]
ProblemFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="DIMACS file (.gz, .xz; - is stdin), a space (.toml), a feature model (.uvl), or the "
        "folder of a fitted model.",
    ),
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Examples: .npy, .npz, .parquet, .csv, or SAT-sampler text."
    ),
]
ModelFolder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="A folder that nelson learn wrote.")
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="none|file|FILE",
        help="none: uniform. file: the weights in the formula's file (default if it has any). "
        "FILE: theta, .npy or text.",
    ),
]
Dialect = Annotated[
    str, typer.Option(metavar="NAME", help="How to read weight lines; auto: as they look.")
]
DropInvalid = Annotated[bool, typer.Option("--drop-invalid", help="Leave invalid rows out.")]

# --- drawing ------------------------------------------------------------------------------------

Count = Annotated[str, typer.Option("-n", "--count", metavar="N", help="Samples: 1000, 1e6, inf.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Same seed, same samples. [default: a fresh one]"),
]
Method = Annotated[
    str, typer.Option(metavar="NAME", help="auto, or a name that `nelson samplers` lists.")
]
Given = Annotated[
    list[str],
    typer.Option(
        metavar="LITERALS|NAME=VALUE|RULE",
        help="A condition: literals 1,-5; burst=WRAP; a rule of a space, 'len > 4'. Repeatable.",
    ),
]
Weight = Annotated[
    list[str],
    typer.Option(
        metavar="NAME.VALUE=X",
        help="Factor on the likelihood of a value: burst.FIXED=60; of a flag or rule: write=3. "
        "Repeatable.",
    ),
]
Share = Annotated[
    list[str],
    typer.Option(
        metavar="NAME.VALUE=X",
        help="Spaces: the share of a value: burst.FIXED=0.6; of a flag or rule: write=0.3. "
        "Repeatable.",
    ),
]
First = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        help="Spaces: choose this field first, uniformly over its legal values. Repeatable.",
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        metavar="VARIABLES",
        help="Write these variables only, e.g. 1,2,7; or all. "
        "[default: the projection in the formula's file, else all]",
    ),
]
ProjectLaw = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="solutions: each projected solution counts once. marginal: once for each solution "
        "that extends it. [default: solutions if the projection is in the formula's file]",
    ),
]
Unique = Annotated[bool, typer.Option("--unique", help="Distinct samples only.")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="SECONDS", help="Stop after this many seconds.")
]
Sweeps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Heat-bath sweeps inside the valid space. [default: the method's choice]",
    ),
]
Moves = Annotated[
    str,
    typer.Option(metavar="NAME", help="What a sweep is, with --sweeps: single, fields or joint."),
]
MaxRounds = Annotated[
    int, typer.Option(metavar="N", help="Give a sample up after this many rounds.")
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="Threads to draw with. [default: all cores]")
]

# --- output -------------------------------------------------------------------------------------

Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="out.txt, out.csv, out.npz, out.parquet; - is stdout.",
    ),
]
TableOutput = Annotated[
    str,
    typer.Option("-o", "--output", metavar="FILE", help="out.csv or out.json; - is stdout."),
]
Spreadsheet = Annotated[
    bool,
    typer.Option(
        "--spreadsheet",
        help="CSV: an apostrophe before text that begins with =, +, - or @, so that no spreadsheet "
        "takes it for a formula.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No notes, no progress, no summary.")]

# --- --cluster [ADDRESS] ------------------------------------------------------------------------


class ClusterCommand(TyperCommand):
    """Lets `--cluster` stand alone: the next word is its value only if it looks like an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word == "--":
                break
            if word == "--cluster" and not _is_address(args[at + 1 : at + 2]):
                args = [*args[:at], "--cluster=auto", *args[at + 1 :]]
        return super().parse_args(ctx, args)


def _is_address(following: list[str]) -> bool:
    """ "auto", "host:6379", "ray://host:10001" """
    if not following or following[0].startswith("-"):
        return False
    word = following[0]
    return word == "auto" or "://" in word or word.rpartition(":")[2].isdigit()
