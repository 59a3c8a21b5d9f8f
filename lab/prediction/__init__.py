"""Tasks with published figures: hierarchies, grid paths, sushi. `python -m lab prediction`"""

from __future__ import annotations

from lab.prediction import hierarchies, small
from lab.prediction.tasks import Task

NAMES = (*hierarchies.NAMES, small.PATHS, small.PATHS_GIVEN, small.SUSHI)


def load(folder: str, name: str) -> Task:
    if name in (small.PATHS, small.PATHS_GIVEN):
        return small.paths(folder, given=name == small.PATHS_GIVEN)
    return small.sushi(folder) if name == small.SUSHI else hierarchies.load(folder, name)
