"""`torchrun --nproc-per-node 2 -m nelson.cli.train FILE DATA -o model`: `nelson learn` by
several processes, on one machine or many.

Each rank draws its share of the model's samples (`learning/shares.py`) and holds its share of the
examples (`rows.py`, `slices.py`). What they add up is integers, so theta is the same bits for any
number of ranks. Rank 0 says how the run goes, and writes checkpoints and the model.
"""

from __future__ import annotations

import inspect
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import learn as command
from nelson.cli.common import BUDGET, INTERRUPTED, fail, guarded, read_formula, say
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.learning.group import Group
    from nelson.learning.learn import Fit

EXAMPLES = """\b
Examples:
  torchrun --nproc-per-node 2 -m nelson.cli.train puzzle.cnf data.npz -o model --seed 1
  torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29400 \\
      -m nelson.cli.train puzzle.cnf data.npz -o model
  python -m nelson.cli.train puzzle.cnf data.npz -o model     without torchrun: one rank

Same seed, same theta, on any number of ranks. A run that was killed goes on when the same command
is given again, with any number of ranks. Exit codes are those of nelson learn; torchrun makes a 1
of any that is not 0, and adds a report of its own.
"""

#: Options that `learn` takes as they are, and those that must be the same on all ranks.
_PASSED = ("preset", "sampler", "sweeps", "m", "eta", "iterations", "batch", "prior", "seed")
_SHARED = (*_PASSED, "drop_invalid", "fresh")


def train(**given: Any) -> None:
    """Fit theta to examples of valid structures, by all ranks that torchrun has started."""
    from nelson.cluster.ranks import Lost, Ranks, join

    group = join(given["device"], given["timeout"])
    if not isinstance(group, Ranks):
        _train(group, given)
        return
    try:
        _train(group, given)
    except typer.Exit:
        group.leave()
        raise
    except BaseException as error:
        # One rank fails and the others lose contact: only the first has something to say.
        first = group.fails_first()
        if not isinstance(error, Lost):
            group.leave()
        if not first:
            raise typer.Exit(1) from None
        say(f"rank {group.rank} of {group.size} ends the run{_way_on(error, given)}")
        raise
    group.leave()


def _train(group: Group, given: dict[str, Any]) -> None:
    from nelson.cluster.ranks import Ranks, device_of_rank, local_ranks
    from nelson.cluster.rows import file_digest, load_share
    from nelson.kernels.core.threads import usable_cores
    from nelson.learning.learn import learn
    from nelson.learning.loop import formula_fingerprint
    from nelson.learning.model import writable

    file, data, lead = given["file"], given["data"], group.rank == 0
    if "-" in (file, data):
        raise FormulaError("- for stdin", expected="a path: every rank reads the file itself")
    quiet = given["quiet"] or not lead
    if lead:
        writable(given["output"])  # refused before any work is done
    formula = read_formula(file, given["dialect"], quiet)
    digest = file_digest(data)
    options = {name: given[name] for name in _SHARED}
    same_everywhere(
        group, {file: formula_fingerprint(formula), data: digest, "the options": options}
    )
    examples = load_share(formula, data, group, digest, given["drop_invalid"])
    folder = checkpoint_of(given)
    before = None if given["fresh"] or not lead else iteration(folder)
    if before is not None and not quiet:
        say(f"goes on from {folder}, iteration {before}")
    with group.listening() if isinstance(group, Ranks) else nullcontext():
        fit = learn(
            formula,
            examples,
            **{name: given[name] for name in _PASSED},
            seconds=given["seconds"],
            threads=given["threads"] or max(1, usable_cores() // local_ranks()),
            device=device_of_rank(given["device"]),
            checkpoint=folder,
            checkpoint_every=given["every"],
            resume=not given["fresh"],
            progress=False if quiet else None,
            tensorboard=given["tensorboard"] if lead else None,
            group=group,
        )
        settings = fit.model.metadata["settings"]
        fit.model.metadata["ranks"] = group.size
        if lead:
            whole = fit.converged or len(fit.history) >= settings["iterations"]
            _write(fit, given, quiet, tidy=whole and given["checkpoint"] is None)
        # torchrun ends all ranks when one leaves with a code: not before the model is there.
        group.gather("written")
    if fit.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not fit.converged and settings["stop"]:
        if lead:
            fail(f"budget reached: {fit.why}", BUDGET)
        raise typer.Exit(BUDGET)


def same_everywhere(group: Group, what: dict[str, Any]) -> None:
    """Raises FormulaError that names the first thing which is not the same on all ranks."""
    told = group.gather(what)
    for (name, _), *values in zip(what.items(), *(t.values() for t in told), strict=True):
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


def iteration(folder: Path) -> int | None:
    """Of the checkpoint in a folder, if there is one."""
    try:
        return int(json.loads((folder / "checkpoint.json").read_text())["iteration"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _way_on(error: BaseException, given: dict[str, Any]) -> str:
    """After a rank was lost: how to go on."""
    from nelson.cluster.ranks import Lost

    if not isinstance(error, Lost):
        return ""
    folder = checkpoint_of(given)
    at = iteration(folder)
    if at is None:
        return f": the same command goes on from the last checkpoint in {folder}, if there is one"
    return f": the same command goes on from {folder}, iteration {at}"


def _write(fit: Fit, given: dict[str, Any], quiet: bool, tidy: bool) -> None:
    fit.save(given["output"])
    command._extras(fit, given["plot"], given["history"])
    if not quiet:
        ranks = fit.model.metadata["ranks"]
        say(command._summary(fit, given["output"]) + f" · {ranks} ranks" * (ranks > 1))
    folder = checkpoint_of(given)
    if tidy and folder.is_dir():  # nobody asked for it by name, and it has served
        for path in [folder / "checkpoint.json", *folder.glob("state-*.safetensors")]:
            path.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _declare() -> None:
    """The options of `nelson learn`, and those that several ranks bring along."""
    known = inspect.signature(command.learn, eval_str=True).parameters
    other = {
        "file": typer.Argument(..., metavar="FILE", help="DIMACS file (.gz, .xz)."),
        "checkpoint": typer.Option(
            None,
            metavar="FOLDER",
            help="Save the run here, and go on from there if it was killed. "
            "[default: MODEL.run, removed at the end]",
        ),
        "every": typer.Option(5, "--checkpoint-every", help="Iterations between two of those."),
        "threads": typer.Option(None, help="Of each rank. [default: its share of the cores]"),
    }
    parameters = [p.replace(default=other.get(name, p.default)) for name, p in known.items()]
    more: dict[str, tuple[type, Any]] = {
        "device": (str, typer.Option("cpu", help="cpu (gloo), or cuda (NCCL): a GPU a rank.")),
        "timeout": (float, typer.Option(600.0, help="Seconds after which a rank counts as lost.")),
    }
    for name, (kind, default) in more.items():
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
            )
        )
    train.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    train.__annotations__ = {p.name: p.annotation for p in parameters}


def main() -> None:
    _declare()
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(epilog=EXAMPLES)(guarded(train))
    app(prog_name="nelson.cli.train")


if __name__ == "__main__":
    main()
