"""Names of the two exact ways to draw and to sum, for `nelson.sample` and `nelson.log_z`; and the
`Reason` that stands in for a result where there is none.
"""

from __future__ import annotations

ENUMERATE = "enumerate"  # all structures
CIRCUIT = "circuit"  # a d-DNNF


class Reason(str):
    """Returned in place of a result; a text for people. An empty one is not worth a word."""

    __slots__ = ()
