"""One task from end to end: examples -> learn -> generate -> evaluate -> pictures.

    visit = tour(nelson.tasks.Orientations.small(), "folder")
    visit.report["validity"], visit.pictures

`nelson demo` does this for every task; so can a task of your own, if it follows `Task`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nelson.tasks.base import Drawn, Learned, Task, noise_floor

#: Examples to learn from; as many more are held out.
EXAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Visit:
    """What came of it. `report` is that of `Task.evaluate` on the examples held out.

    noise     the L1 moment gap that noise alone would make (`base.noise_floor`)
    seconds   by step: "examples", "learn", "generate", "evaluate", "pictures"
    pictures  the overview and one new structure; empty without matplotlib
    """

    task: Task
    learned: Learned
    drawn: Drawn
    report: dict[str, Any]
    noise: float
    seconds: dict[str, float]
    pictures: list[Path] = field(default_factory=list)


def tour(
    task: Task,
    folder: str | os.PathLike[str] | None = None,
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    say: Callable[[str], Any] = lambda text: None,
) -> Visit:
    """Learn from `examples`, generate as many, judge on as many that were held out.

    folder  gets NAME.png and NAME-one.png; None: no pictures
    say     is told each step before it begins
    """
    seconds: dict[str, float] = {}

    def step(name: str, text: str, do: Callable[[], Any]) -> Any:
        say(text)
        started = time.monotonic()
        try:
            return do()
        finally:
            seconds[name] = time.monotonic() - started

    both = step(
        "examples",
        f"{examples:,} examples, and as many held out",
        lambda: (task.examples(examples, seed=seed), task.examples(examples, seed=seed + 1)),
    )
    train, held_out = both
    learned = step("learn", "learning", lambda: task.learn(train, seed=seed))
    drawn = step(
        "generate", "generating", lambda: task.sample(learned.theta, examples, seed=seed + 2)
    )
    report = step(
        "evaluate",
        "evaluating",
        lambda: task.evaluate(learned.theta, held_out, train=train, seed=seed + 3),
    )
    pictures: list[Path] = []
    if folder is not None and find_spec("matplotlib"):
        base = Path(folder)
        pictures = step(
            "pictures",
            "drawing",
            lambda: [
                task.picture(train, learned.theta, drawn.x, base / f"{task.name}.png"),
                task.draw(drawn.x[0], base / f"{task.name}-one.png", theta=learned.theta),
            ],
        )
    noise = noise_floor(held_out.mean(axis=0), len(held_out), report["samples"], len(train))["l1"]
    return Visit(task, learned, drawn, report, noise, seconds, pictures)
