"""Every table and figure of the paper, and more, as commands: `nelson bench`.

Import `names`, `get` and `run_cell` from here. An experiment is one file that defines EXPERIMENT
and one line in `registry.py`; `module:ATTRIBUTE` names one that lies elsewhere.

>>> nelson_paper.experiments.names()[:3]
['table1', 'table2', 'table3']
>>> nelson_paper.experiments.get("table1").name
'table1'
"""

from nelson_paper.experiments.registry import get, names, run_cell

__all__ = ["get", "names", "run_cell"]
