"""PyVSC's back end: `solve_randset` writes one row of the law into the fields of a set.

Texts of constraints are looked up as those of Verilator are: what differs in its literals alone
shares a circuit. Constraints that we do not support go to a solver of PyVSC; each such call is
counted, and each reason is a warning once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any, ClassVar

from vsc.model.separability import width_ranges
from vsc.model.solve_failure import SolveFailure
from vsc.model.solver.backend import (
    BackendIncomplete,
    SolverBackendIF,
    SolveResult,
    select_backend,
)
from vsc.visitors.refs_used_rand_visitor import refs_used_rand

from nelson.formula.memo import Recent
from nelson.pyvsc.rows import Entry, FieldRows, Layer
from nelson.pyvsc.translation import Translation, Untranslatable, literal
from nelson.verilator.problems import KEPT, Problems
from nelson.verilator.texts import divided


class NelsonBackend(SolverBackendIF):
    """PyVSC makes one for each call of randomize(); what is kept belongs to the class."""

    #: PyVSC 1.0 keeps what it prepares for an object only for a back end of this name; else it
    #: prepares anew at each call, which takes five times as long as a draw.
    name = "dv-solve"
    supports_soft = True
    supports_dist_native = True
    randomizes_internally = True
    derives_bounds = True

    #: The solver of PyVSC that takes what is handed back; None: PyVSC decides.
    otherwise: str | None = "dv-solve"
    #: Sets of fields drawn, by who drew them.
    drawn: ClassVar[Counter[str]] = Counter()
    _problems = Problems()
    _rows: Recent[str, FieldRows] = Recent(KEPT)
    _soft_held: Recent[tuple[str, ...], list[bool]] = Recent(KEPT)  # soft constraints that hold

    @classmethod
    def available(cls) -> bool:
        return True

    def solve_randset(
        self, rs: Any, bound_m: Any, randstate: Any, solve_info: Any = None, debug: int = 0
    ) -> SolveResult:
        """Values for the random fields of a set; SolveFailure if there are none."""
        try:
            self._solve(rs, randstate)
        except Untranslatable as error:
            self._hand_back(error)
            select_backend(self.otherwise).solve_randset(
                rs, bound_m, randstate, solve_info=solve_info, debug=debug
            )
        if solve_info is not None:
            solve_info.n_sat_calls += 1
        return SolveResult()

    def _hand_back(self, error: Untranslatable) -> None:
        who = f"{self.otherwise or 'handed back'} ({error.reason})"
        self.drawn[who] += 1
        if self.otherwise is None:
            raise BackendIncomplete(f"nelson: {error}", reason_code=error.reason)
        if self.drawn[who] == 1:
            message = f"nelson leaves a set of fields to {self.otherwise}, whose law is not exact: "
            warnings.warn(message + str(error), RuntimeWarning, stacklevel=3)

    def _solve(self, rs: Any, randstate: Any) -> None:
        # A set comes again if PyVSC has kept it: the same constraints, and mostly the same state.
        known = getattr(rs, "nelson", None)
        if known is None or any(int(f.val) != v for f, v in known[0].state.items()):
            rs.nelson = known = self._prepared(rs)
        translation, rows = known
        names = translation.names
        layers = _layers(rs, names)
        if not rows.is_possible:
            raise SolveFailure("solve failure", "the constraints contradict each other")
        if names:
            values = rows.draw(layers, randstate.rng.getrandbits(64))
            for field, name in names.items():
                value = values[name]
                if field.is_signed and value >> field.width - 1:
                    value -= 1 << field.width
                field.set_val(value)
        self.drawn["exact"] += 1

    def _prepared(self, rs: Any) -> tuple[Translation, FieldRows]:
        translation = Translation([f for f in rs.rand_fields() if f.is_used_rand])
        lines = translation.declared(width_ranges)
        lines += [f"(assert {translation.rule(c)})" for c in rs.constraints()]
        return translation, self._rows_of(lines, translation, rs.soft_constraints())

    def _rows_of(self, lines: list[str], translation: Translation, soft: list[Any]) -> FieldRows:
        """The rows of the constraints, with the largest set of soft ones in order of priority."""
        if not soft:
            return self._of("".join(lines), translation)
        ordered = sorted(soft, key=lambda c: -c.priority)
        rules = [translation.rule(c, is_soft=True) for c in ordered]

        def stated(holds: list[bool]) -> str:
            # Whether a soft constraint holds is a literal, so one circuit serves all sets.
            more = (
                f"(assert (or {rule} (= {literal(0, 1)} {literal(int(held), 1)})))"
                for rule, held in zip(rules, holds, strict=True)
            )
            return "".join([*lines, *more])

        def kept() -> list[bool]:
            if self._of(stated([True] * len(rules)), translation).is_possible:
                return [True] * len(rules)
            holds = [False] * len(rules)
            for k in range(len(rules)):
                holds[k] = True
                holds[k] = self._of(stated(holds), translation).is_possible
            return holds

        return self._of(stated(self._soft_held.once((*lines, *rules), kept)), translation)

    def _of(self, text: str, translation: Translation) -> FieldRows:
        def made() -> FieldRows:
            _, instance = self._problems.find(text.encode(), divided)
            if instance.constraints.errors:
                raise Untranslatable("construct", instance.constraints.errors.strip())
            widths = {name: field.width for field, name in translation.names.items()}
            return FieldRows(instance, widths)

        return self._rows.once(text, made)


def _layers(rs: Any, names: dict[Any, str]) -> list[Layer]:
    """The layers of solve_order, with weights; [] if there are neither."""
    weights = {}
    for field, scopes in rs.dist_field_m.items():
        if field in names and (entries := _entries(field, scopes)) is not None:
            weights[names[field]] = entries
    order = [[names[f] for f in fields if f in names] for fields in rs.rand_order_l or ()]
    order = [layer for layer in order if layer]
    if not weights and len(order) < 2:
        return []
    layers = []
    left = dict(weights)
    for layer in order[:-1]:
        here = {name: left.pop(name) for name in layer if name in left}
        layers.append(Layer(here, tuple(name for name in layer if name not in here)))
    return [*layers, Layer(left, ())]


def _entries(field: Any, scopes: list[Any]) -> list[Entry] | None:
    """The ranges of `dist` with their weights; None if it does not apply now."""
    active = []
    for scope in scopes:
        if any(map(refs_used_rand, scope.cond_l)):
            raise Untranslatable("dist-guard", "a dist under a condition on random fields")
        if all(map(_holds, scope.cond_l)):
            active.append(scope)
    if not active:
        return None
    if len(active) > 1:
        raise Untranslatable("dist", "two dists of one field")
    whole = width_ranges(field)
    lowest, highest = whole[0][0], whole[-1][1]
    entries = []
    for each in active[0].dist_c.weights:
        if refs_used_rand(each.weight):
            raise Untranslatable("dist-weight", "a weight that depends on a random field")
        low = int(each.rng_lhs.val())
        high = low if each.rng_rhs is None else int(each.rng_rhs.val())
        weight = max(0, int(each.weight.val()))
        inside = max(low, lowest), min(high, highest)
        n, left = high - low + 1, inside[1] - inside[0] + 1
        if weight and left > 0:
            entries.append((*inside, weight * (left if each.is_per_value else left / n)))
    return entries


def _holds(condition: Any) -> bool:
    """A condition on state. What the branch `else` stands under has no val() in PyVSC."""
    if type(condition).__name__ == "ExprUnaryModel":
        return not _holds(condition.expr)
    return bool(int(condition.val()))
