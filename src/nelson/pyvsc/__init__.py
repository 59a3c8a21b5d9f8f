"""PyVSC: randomize() whose values follow the exact law.

    import nelson.pyvsc
    nelson.pyvsc.install()          # before or after objects are made

All objects of PyVSC, also those of cocotb and pyuvm test benches, are then randomized by nelson.
"""

from __future__ import annotations

from collections import Counter

from nelson.errors import installed

_NAME = "nelson"


def install(select: bool = True, otherwise: str | None = "dv-solve") -> None:
    """Register the back end "nelson" of PyVSC.

    select      use it from now on. False: PyVSC's own choice, which is VSC_SOLVER=nelson in the
                environment, or vsc.set_solver_backend("nelson").
    otherwise   the solver of PyVSC that takes sets of fields that are not supported here. None:
                they raise PyVSC's SolverUnsupported, or go to Boolector with
                VSC_DVSOLVE_FALLBACK=boolector.
    """
    with installed('PyVSC 1.0 is missing: pip install "nelson-mrf[pyvsc]"'):
        from vsc.impl import ctor
        from vsc.model.solver import backend
    from nelson.pyvsc.backend import NelsonBackend

    NelsonBackend.otherwise = otherwise
    # PyVSC 1.0 has no entry point for back ends: these two names are private.
    if _NAME not in backend._ALIASES:
        theirs = backend._load_backend_cls
        backend._ALIASES[_NAME] = _NAME
        backend._load_backend_cls = lambda name: NelsonBackend if name == _NAME else theirs(name)
    if select:
        ctor.set_solver_backend(_NAME)


def drawn() -> Counter[str]:
    """How many sets of fields were drawn in this process, by guarantee or by other solver."""
    from nelson.pyvsc.backend import NelsonBackend

    return Counter(NelsonBackend.drawn)
