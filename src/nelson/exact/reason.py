"""Why a method does not answer, or a step does not apply: an object beside the answers."""

from __future__ import annotations


class Reason(str):
    """Returned in place of a result; a text for people. An empty one is not worth a word."""

    __slots__ = ()
