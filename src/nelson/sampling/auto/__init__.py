"""`method="auto"`: the strongest guarantee that a formula allows within its budget.

ladder.py    which form of the formula, and which steps in which order
steps.py     the steps on one form: which component each of them takes, and why not the others
groups.py    components with the same method become groups that are drawn together
kept.py      decisions that serve later calls with the same formula
decision.py  what was decided: groups of components that share a method, and the choice in short
compiling.py one circuit for all components that may have one, in the background if need be
coupling.py  a trial tells whether coupled chains of all starts meet
chains.py    chains in the valid space, and the verdict of `nelson.sampling.diagnosis` on them
starts.py    valid states from a CDCL solver
draw.py      one draw of each group, put together and rebuilt
"""

from nelson.sampling.auto.decision import Choice, Decision, Group, Limits
from nelson.sampling.auto.draw import ready, sampler, settled
from nelson.sampling.auto.kept import decide

__all__ = ["Choice", "Decision", "Group", "Limits", "decide", "ready", "sampler", "settled"]
