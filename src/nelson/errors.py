"""Every error that nelson raises on purpose.

`FormulaError` is bad input, `Unsatisfiable` is a proof, `BudgetExceeded` is neither: a run that
was stopped says nothing about the formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def shortened(text: str, most: int = 40) -> str:
    """A text for an error message: its beginning if it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


#: Line ends and tabs, which a text of several lines keeps on a terminal.
LINES = "\n\t"


def printable(text: str, keep: str = "") -> str:
    """A text for a terminal: what `repr` would escape is escaped, except the characters in `keep`.

    Names come from files, and an escape sequence in a name must not reach the terminal.

    >>> printable("Car\\x1b[2J")
    'Car\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


class NelsonError(Exception):
    """Base class: `except nelson.NelsonError` catches everything raised on purpose.

    >>> try:
    ...     nelson.sample(nelson.Formula([[1, 2]]), [0.5], 10)
    ... except nelson.NelsonError as error:
    ...     print(error)
    theta of shape (1,); expected (2,), or (contexts, 2)
    """


class FormulaError(NelsonError, ValueError):
    """The input does not say a formula (or a weight vector for one).

    The message reads `source:line: what; expected ...`, as compilers print it. `source` and `line`
    (counted from 1) are None where the formula did not come from a file.

    >>> nelson.Formula([[1, 0]])
    Traceback (most recent call last):
    nelson.errors.FormulaError: ...
    """

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        source: str | None = None,
        line: int | None = None,
    ) -> None:
        self.what = what
        self.expected = expected
        self.source = source
        self.line = line
        where = ":".join(str(part) for part in (source, line) if part is not None)
        message = f"{where}: {what}" if where else what
        super().__init__(f"{message}; expected {expected}" if expected else message)


class ImpossibleShares(FormulaError):
    """No law over the solutions has the shares that were asked for, and here is the proof:

        direction . f(x) <= highest  for every solution x,   direction . targets = asked > highest

    where f(x) are the values (0 or 1) of `literals` in x. All but few entries of `direction`
    (integers) are 0.

    >>> space = nelson.Space()
    >>> red, blue = space.flag("red"), space.flag("blue")
    >>> space.require(~(red & blue))
    >>> space.sample(10, shares={red: 0.7, blue: 0.6})
    Traceback (most recent call last):
    nelson.errors.ImpossibleShares: ...
    """

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        literals: tuple[int, ...] = (),
        targets: tuple[float, ...] = (),
        direction: tuple[int, ...] = (),
        highest: int = 0,
        asked: float = 0.0,
    ) -> None:
        super().__init__(what, expected=expected)
        self.literals, self.targets = literals, targets
        self.direction, self.highest, self.asked = direction, highest, asked


class Unsatisfiable(NelsonError):
    """A solver, or unit propagation, proved that no assignment satisfies the formula.

    >>> nelson.sample(nelson.Formula([[1, 2], [-1], [-2]]))
    Traceback (most recent call last):
    nelson.errors.Unsatisfiable: ...
    """


class BudgetExceeded(NelsonError):
    """Rounds or seconds ran out, and the caller had asked for an exception in that case.

    >>> formula = nelson.Formula([[1, 2, 3], [-1, 2, 3]])
    >>> nelson.sample(formula, n=1000, method="lovasz", max_rounds=1, strict=True)
    Traceback (most recent call last):
    nelson.errors.BudgetExceeded: ...
    """


@contextmanager
def installed(advice: str) -> Iterator[None]:
    """Around the imports of optional packages: NelsonError(advice) if one is missing."""
    try:
        yield
    except ImportError as error:
        raise NelsonError(advice) from error
