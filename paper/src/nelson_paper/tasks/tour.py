"""One task from end to end: examples -> learn -> generate -> evaluate -> pictures.

    visit = tour(nelson_paper.tasks.Orientations.small(), "folder")
    visit.report["validity"], visit.pictures

`nelson demo` does this for every task. It works for your own task too, if the class derives from
`Task`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nelson_paper.tasks.base import Generated, Learned, Task, noise_floor
from nelson_paper.tasks.drawing import AnyPath

#: Examples to learn from; the same number is held out.
EXAMPLES = 1000
#: Standard deviation of |z| for a standard normal z: sqrt(1 - 2 / pi).
ABSOLUTE_SD = 0.603


@dataclass(frozen=True, eq=False)
class Visit:
    """The results. `report` is what `Task.evaluate` says of the held-out examples.

    noise     the L1 moment gap that noise alone would make (`base.noise_floor`)
    allowed   noise and three standard deviations of it, as if variables were independent
    seconds   by step: "examples", "learn", "generate", "evaluate", "pictures"
    pictures  the overview and one new structure; empty without matplotlib
    """

    task: Task
    learned: Learned
    generated: Generated
    report: dict[str, Any]
    noise: float
    seconds: dict[str, float]
    pictures: list[Path] = field(default_factory=list)
    allowed: float = float("inf")

    @property
    def within_noise(self) -> bool:
        """Is the gap no larger than noise explains?"""
        return bool(self.report["moment_gap"]["l1"] <= self.allowed)


def tour(
    task: Task,
    folder: AnyPath | None = None,
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    say: Callable[[str], Any] = lambda text: None,
) -> Visit:
    """Learn from `examples` examples, generate that many, evaluate on that many held-out ones.

    folder  gets NAME.png and NAME-one.png; None: no pictures
    say     is called with the name of each step before the step begins
    """
    seconds: dict[str, float] = {}

    @contextmanager
    def step(name: str, text: str) -> Iterator[None]:
        say(text)
        started = time.monotonic()
        yield
        seconds[name] = time.monotonic() - started

    with step("examples", f"{examples:,} examples, and as many held out"):
        train, held_out = (task.examples(examples, seed=s) for s in (seed, seed + 1))
    with step("learn", "learning"):
        learned = task.learn(train, seed=seed)
    theta = learned.theta
    with step("generate", "generating"):
        generated = task.sample(theta, examples, seed=seed + 2)
    with step("evaluate", "evaluating"):
        report = task.evaluate(theta, held_out, train=train, seed=seed + 3)
    pictures: list[Path] = []
    if folder is not None and find_spec("matplotlib"):
        base = Path(folder)
        with step("pictures", "drawing"):
            pictures = [
                task.picture(train, theta, generated.x, base / f"{task.name}.png"),
                task.draw(generated.x[0], base / f"{task.name}-one.png", theta=theta),
            ]
    floor = noise_floor(held_out.mean(axis=0), len(held_out), report["samples"], len(train))
    noise = floor["l1"]
    allowed = noise + 3 * ABSOLUTE_SD * floor["l2"]
    return Visit(task, learned, generated, report, noise, seconds, pictures, allowed)
