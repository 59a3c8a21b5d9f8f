"""`method="auto"`: the strongest guarantee that a formula allows within its budget.

ladder.py    which method for which component, and why not the ones before it
compiling.py one circuit for all components that may have one
starts.py    valid states from a CDCL solver
agree.py     do chains that begin in different places come to agree
groups.py    components that share a method, as one problem
draw.py      one draw of each group, put together and rebuilt
"""

from nelson.sampling.auto.draw import ready, sampler, settled
from nelson.sampling.auto.groups import Decision, Group, Terms
from nelson.sampling.auto.ladder import decide

__all__ = ["Decision", "Group", "Terms", "decide", "ready", "sampler", "settled"]
