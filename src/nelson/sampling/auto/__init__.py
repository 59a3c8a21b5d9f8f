"""`method="auto"`: the strongest guarantee that a formula allows within its budget.

ladder.py          the list of steps, in the order in which they are tried; decisions that serve
                   later calls with the same formula
steps/             one file for each step
search.py          what the steps share: the forms of the formula, with the parts that are left and
                   those that a step has taken; the compiler in the background
groups.py          parts with the same step become groups that are drawn together
decision.py        what was decided: groups, and the choice in short
chains.py          chains in the valid space, and the verdict of `nelson.chains.diagnosis` on them
draw.py            one draw of each group, put together and rebuilt
"""

from nelson.sampling.auto.decision import ComponentGroup, Decision, MethodChoice
from nelson.sampling.auto.draw import ready, ready_once, sampler, settled
from nelson.sampling.auto.ladder import known_or_decided as decide
from nelson.sampling.auto.ladder import leave_out_trial

__all__ = [
    "ComponentGroup",
    "Decision",
    "MethodChoice",
    "decide",
    "leave_out_trial",
    "ready",
    "ready_once",
    "sampler",
    "settled",
]
