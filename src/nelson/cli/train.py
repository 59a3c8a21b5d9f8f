"""`torchrun --nproc-per-node 2 -m nelson.cli.train FILE DATA -o model`: `nelson learn` by several
processes, on one machine or many.

Each rank draws its share of the model's samples (`learning/shares.py`) and holds its share of the
examples (`learning/rank_examples.py`). The ranks add up integers only, so theta is the same bits
for any number of ranks. Rank 0 reports progress, and writes the checkpoints and the model.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nelson.cli import learn as command
from nelson.cli.common import APP_SETTINGS, ExitCode, fail, guarded, say
from nelson.cli.inputs import read_formula
from nelson.cli.interrupt import interrupted_code, interruption_waits_for_no_thread
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.learning.group import ProcessGroup
    from nelson.learning.learn import Fit
    from nelson.learning.ranks import Ranks

EXAMPLES = """\b
Examples:
  torchrun --nproc-per-node 2 -m nelson.cli.train puzzle.cnf data.npz -o model --seed 1
  torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29400 \\
      -m nelson.cli.train puzzle.cnf data.npz -o model
  python -m nelson.cli.train puzzle.cnf data.npz -o model     without torchrun: one rank

Same seed, same theta, on any number of ranks. After a run was killed, the same command continues
it, with any number of ranks. Exit codes are those of nelson learn; torchrun turns any code but 0
into 1, and adds its own report.
"""

#: Options of the command line -> fields of the optimizer.
_CHANGES = {"sweeps": "sweeps", "m": "m", "eta": "rate", "iterations": "iterations"}
_CHANGES |= {"batch": "batch", "prior": "prior"}
#: Options of `nelson learn` that ranks do not have: products are learned by one process.
_ONE_PROCESS = ("terms", "l1", "l2", "valid", "suggest")
#: Options that must be the same on all ranks.
_SHARED = (*_CHANGES, "preset", "sampler", "seed", "drop_invalid", "fresh")


def train(**given: Any) -> None:
    """Fit theta to examples of valid structures, on all ranks that torchrun has started."""
    from nelson.learning.ranks import Ranks, join

    group = join(given["device"], given["timeout"])
    if isinstance(group, Ranks):
        # When a rank fails, torchrun sends SIGTERM to the others: it must not cut off their report.
        with group.listening():
            guarded(_train_as_rank)(group, given)
    else:
        _train(group, given)


def _train_as_rank(group: Ranks, given: dict[str, Any]) -> None:
    from nelson.learning.ranks import Lost

    try:
        _train(group, given)
    except typer.Exit:
        group.leave()
        raise
    except BaseException as error:
        # When one rank fails the others lose contact with it: only the first one reports.
        first = group.fails_first()
        if not isinstance(error, Lost):
            group.leave()
        if not first:
            raise typer.Exit(1) from None
        say(f"rank {group.rank} of {group.size} ends the run{_how_to_continue(error, given)}")
        raise
    group.leave()


def _train(group: ProcessGroup, given: dict[str, Any]) -> None:
    from nelson.kernels.core.threads import usable_cores
    from nelson.learning.learn import learn
    from nelson.learning.loop import formula_fingerprint
    from nelson.learning.model import writable
    from nelson.learning.rank_examples import file_digest, load_share
    from nelson.learning.ranks import device_of_rank, local_ranks
    from nelson.learning.run_options import Run

    file, data, lead = given["file"], given["data"], group.rank == 0
    if "-" in (file, data):
        raise FormulaError("- (stdin)", expected="a path: every rank reads the file itself")
    quiet = given["quiet"] or not lead
    if lead:
        writable(given["output"])  # refused before any work is done
    formula = read_formula(file, given["dialect"], quiet, given["seconds"]).formula
    digest = file_digest(data)
    options = {name: given[name] for name in _SHARED}
    same_everywhere(
        group, {file: formula_fingerprint(formula), data: digest, "the options": options}
    )
    examples = load_share(formula, data, group, digest, given["drop_invalid"])
    folder = checkpoint_of(given)
    reached = None if given["fresh"] or not lead else iteration_of(folder)
    if reached is not None and not quiet:
        say(f"continues from {folder}, iteration {reached}")
    fit = learn(
        formula,
        examples,
        optimizer=command.preset_of(
            given["preset"], False, {field: given[name] for name, field in _CHANGES.items()}
        ),
        method=given["sampler"] or "auto",
        seed=given["seed"],
        seconds=given["seconds"],
        threads=given["threads"] or max(1, usable_cores() // local_ranks()),
        device=device_of_rank(given["device"]),
        run=Run(
            checkpoint=folder,
            every=given["every"],
            resume=not given["fresh"],
            progress=False if quiet else None,
            tensorboard=given["tensorboard"] if lead else None,
            group=group,
        ),
    )
    settings = fit.model.metadata["settings"]
    fit.model.metadata["ranks"] = group.size
    if lead:
        ended = fit.converged or len(fit.history) >= settings["iterations"]
        _write(fit, given, quiet, tidy=ended and given["checkpoint"] is None)
    # torchrun ends all ranks when one exits with a code: wait until the model is written.
    group.gather("written")
    if fit.interrupted:
        raise typer.Exit(interrupted_code())
    if not fit.converged and settings["stop"]:
        if lead:
            fail(f"budget reached: {fit.why}", ExitCode.BUDGET)
        raise typer.Exit(ExitCode.BUDGET)


def same_everywhere(group: ProcessGroup, mine: dict[str, Any]) -> None:
    """Raises FormulaError with the first name whose value differs between ranks.

    Names are those of this rank: a path may be another one on another machine.
    """
    by_rank = zip(*(values.values() for values in group.gather(mine)), strict=True)
    for name, values in zip(mine, by_rank, strict=True):
        other = [rank for rank, value in enumerate(values) if value != values[0]]
        if other:
            ranks = ", ".join(map(str, other[:8])) + ", ..." * (len(other) > 8)
            raise FormulaError(
                f"{name}: not the same on rank {ranks} as on rank 0",
                expected="the same formula, data and options on every rank",
            )


def checkpoint_of(given: dict[str, Any]) -> Path:
    if given["checkpoint"] is not None:
        return Path(given["checkpoint"])
    return Path(given["output"].rstrip("/") + ".run")


def iteration_of(folder: Path) -> int | None:
    """The iteration of the checkpoint in a folder; None without a readable checkpoint."""
    try:
        return int(json.loads((folder / "checkpoint.json").read_text())["iteration"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _how_to_continue(error: BaseException, given: dict[str, Any]) -> str:
    """After contact with a rank was lost; else nothing."""
    from nelson.learning.ranks import Lost

    if not isinstance(error, Lost):
        return ""
    folder = checkpoint_of(given)
    reached = iteration_of(folder)
    if reached is None:
        return f": the same command continues from the last checkpoint in {folder}, if there is one"
    return f": the same command continues from {folder}, iteration {reached}"


def _write(fit: Fit, given: dict[str, Any], quiet: bool, tidy: bool) -> None:
    fit.save(given["output"])
    command.write_extras(fit, given["plot"], given["history"])
    if not quiet:
        ranks = fit.model.metadata["ranks"]
        say(command.summary(fit, given["output"]) + f" · {ranks} ranks" * (ranks > 1))
    folder = checkpoint_of(given)
    if tidy and folder.is_dir():  # nobody asked for it by name, and the run has ended
        for path in [folder / "checkpoint.json", *folder.glob("state-*.safetensors")]:
            path.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _declare_options() -> None:
    """Give `train` the options of `nelson learn`, and those that only ranks have."""
    options = dict(inspect.signature(command.learn, eval_str=True).parameters)
    for name in _ONE_PROCESS:
        del options[name]
    path = typer.Argument(metavar="FILE", help="DIMACS file (.gz, .xz).")
    data = typer.Argument(metavar="DATA", help="Examples: .npy, .npz, .parquet, .csv, or text.")
    threads = typer.Option(
        metavar="N", help="Threads of each rank. [default: its share of the cores]"
    )
    checkpoint = typer.Option(
        metavar="FOLDER",
        help="Save the run here; the same command continues from it. "
        "[default: OUTPUT.run, removed at the end]",
    )
    every = typer.Option("--checkpoint-every", metavar="N", help="Iterations between checkpoints.")
    device = typer.Option(metavar="NAME", help="cpu (gloo), or cuda (NCCL): one GPU for each rank.")
    timeout = typer.Option(
        metavar="SECONDS", help="Seconds without an answer until a rank counts as lost."
    )
    for name, kind, default in (
        ("file", Annotated[str, path], inspect.Parameter.empty),
        ("data", Annotated[str, data], inspect.Parameter.empty),
        ("checkpoint", Annotated[str | None, checkpoint], None),
        ("every", Annotated[int, every], 5),
        ("threads", Annotated[int | None, threads], None),
        ("device", Annotated[str, device], "cpu"),
        ("timeout", Annotated[float, timeout], 600.0),
    ):
        options[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
        )
    by_name = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()]
    train.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    train.__annotations__ = {name: option.annotation for name, option in options.items()}


def main() -> None:
    _declare_options()
    app = typer.Typer(add_completion=False, **APP_SETTINGS)
    app.command(epilog=EXAMPLES)(guarded(train))
    with interruption_waits_for_no_thread():
        app(prog_name="nelson.cli.train")


if __name__ == "__main__":
    main()
