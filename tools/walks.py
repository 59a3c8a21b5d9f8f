"""How far one call walks through the library: files entered, functions, switches between files.

    python tools/walks.py            # a table of five calls
    python tools/walks.py sample log_z
    python tools/walks.py learn --pairs 20     # who hands over to whom, the most frequent first

A reader who follows a call with a finger opens `files` files. A switch is a call from a function of
one file of the library to a function of another. `distinct` counts each pair of functions once, so
that a loop counts as its first round; `switches` counts them all. The first run of each call warms
caches and is not counted. No call has a limit in seconds, so that its walk does not depend on the
clock.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import nelson

LIBRARY = Path(nelson.__file__).parent


class Walk(NamedTuple):
    files: int
    functions: int
    distinct: int
    switches: int
    pairs: list[tuple[str, int]]  # "caller -> callee" and its number, the most frequent first


def walk(call: Callable[[], Any]) -> Walk:
    """The walk of one call, in the thread that makes it."""
    root = str(LIBRARY)
    functions: set[tuple[str, str]] = set()
    pairs: Counter[tuple[tuple[str, str], tuple[str, str]]] = Counter()

    def inside(frame: FrameType | None) -> FrameType | None:
        """The frame, or the nearest one above it that is in the library."""
        while frame is not None and not frame.f_code.co_filename.startswith(root):
            frame = frame.f_back
        return frame

    def place(frame: FrameType) -> tuple[str, str]:
        return frame.f_code.co_filename, frame.f_code.co_qualname

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(root):
            return
        callee = place(frame)
        functions.add(callee)
        above = inside(frame.f_back)
        if above is not None and place(above)[0] != callee[0]:
            pairs[place(above), callee] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = {file for file, _ in functions}
    shown = [
        (" -> ".join(f"{Path(file).relative_to(root)}:{name}" for file, name in pair), count)
        for pair, count in pairs.most_common()
    ]
    return Walk(len(files), len(functions), len(pairs), pairs.total(), shown)


def sink_free_cycle(n: int) -> nelson.Formula:
    """Orientations of a cycle without a sink: an extremal formula."""
    return nelson.Formula([[i + 1, -((i + 1) % n + 1)] for i in range(n)])


def calls() -> dict[str, Callable[[int], Any]]:
    """Name -> a call that takes the number of its run, so that nothing is answered from a memo."""

    def three_sat(seed: int) -> nelson.Formula:
        draw = np.random.default_rng(seed)
        rows = [draw.choice(150, 3, replace=False) + 1 for _ in range(300)]
        return nelson.Formula([(row * draw.choice([-1, 1], 3)).tolist() for row in rows])

    def rows(_: int) -> Any:
        space = nelson.Space()
        a, b = space.integer("a", 0, 99), space.integer("b", 0, 99)
        space.require(a < b)
        return space.sample(10, seed=0)

    examples = nelson.sample(sink_free_cycle(30), None, 200, seed=0).to_numpy()
    return {
        "sample, extremal": lambda _: nelson.sample(sink_free_cycle(30), None, 1000, seed=0),
        "sample, 3-SAT n = 150": lambda run: nelson.sample(three_sat(run), None, 1000, seed=0),
        "Space.sample": rows,
        "learn": lambda _: nelson.learn(sink_free_cycle(30), examples, seed=0),
        "log_z": lambda run: nelson.log_z(three_sat(run), None, seed=0),
    }


def main(names: list[str], pairs: int) -> None:
    print(f"{'call':24} {'files':>6} {'functions':>10} {'distinct':>9} {'switches':>9}")
    for name, call in calls().items():
        if names and not any(part in name for part in names):
            continue
        call(1)
        result = walk(lambda call=call: call(2))  # type: ignore[misc]
        files, functions, distinct, switches, shown = result
        print(f"{name:24} {files:6} {functions:10} {distinct:9} {switches:9}")
        for pair, count in shown[:pairs]:
            print(f"    {count:6}  {pair}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of calls")
    parser.add_argument("--pairs", type=int, default=0, help="pairs to show")
    arguments = parser.parse_args()
    main(arguments.names, arguments.pairs)
