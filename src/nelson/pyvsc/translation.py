"""Fields and constraints of PyVSC as text of SMT-LIB2, with the meaning that PyVSC gives to them.

An operator takes its operands at the width of the widest one, or of what stands around it, if that
is wider; they are extended with their sign only if both have one. A comparison has one bit. Random
fields are constants of SMT-LIB2; state is a literal, so equal constraints have equal texts up to
literals (`nelson.verilator.texts`).

A node is recognised by the name of its class, so this file needs no PyVSC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: What the operators of PyVSC are called in SMT-LIB2; the second name is for signed operands.
COMPARISONS = {
    "Lt": ("bvult", "bvslt"),
    "Le": ("bvule", "bvsle"),
    "Gt": ("bvugt", "bvsgt"),
    "Ge": ("bvuge", "bvsge"),
}
ARITHMETIC = {
    "Add": ("bvadd", "bvadd"),
    "Sub": ("bvsub", "bvsub"),
    "Mul": ("bvmul", "bvmul"),
    "Div": ("bvudiv", "bvsdiv"),
    "Mod": ("bvurem", "bvsrem"),
    "And": ("bvand", "bvand"),
    "Or": ("bvor", "bvor"),
    "Xor": ("bvxor", "bvxor"),
    "Sll": ("bvshl", "bvshl"),
    "Srl": ("bvlshr", "bvlshr"),
}


class Untranslatable(Exception):
    """A construct that has no translation. `reason`: one word for it."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


class Translation:
    """Texts over these random fields; all other fields are state."""

    def __init__(self, fields: Sequence[Any]) -> None:
        self.names = {field: f"f{k}" for k, field in enumerate(fields)}
        self.state: dict[Any, int] = {}  # the values that were read
        self._is_soft = False  # are soft constraints read as constraints?

    def declared(self, domains: Callable[[Any], list[list[int]]]) -> list[str]:
        """The fields and their domains: ranges of values."""
        lines = []
        for field, name in self.names.items():
            width, is_signed = field.width, bool(field.is_signed)
            lines.append(f"(declare-const {name} (_ BitVec {width}))")
            low = -(1 << width - 1) if is_signed else 0
            if (ranges := domains(field)) == [[low, low + (1 << width) - 1]]:
                continue
            at_least, at_most = (COMPARISONS[op][is_signed] for op in ("Ge", "Le"))
            inside = (
                f"({at_least} {name} {literal(a, width)}) ({at_most} {name} {literal(b, width)})"
                for a, b in ranges
            )
            lines.append(f"(assert {any_of(f'(and {each})' for each in inside)})")
        return lines

    def rule(self, constraint: Any, is_soft: bool = False) -> str:
        """A constraint; its soft parts hold, or count, only if it is asked for as a soft one."""
        self._is_soft = is_soft
        return self._rule(constraint)

    # --- constraints ------------------------------------------------------------------------------

    def _rule(self, c: Any) -> str:
        for cls in type(c).__mro__:
            if read := _RULES.get(cls.__name__):
                return read(self, c)
        raise Untranslatable("construct", f"a constraint of type {type(c).__name__}")

    def _all(self, c: Any) -> str:
        return all_of(map(self._rule, c.constraint_l))

    def _loop(self, c: Any) -> str:
        raise Untranslatable("foreach", "a loop that PyVSC has not expanded")

    def _alternative(self, c: Any) -> str:
        otherwise = "true" if c.false_c is None else self._rule(c.false_c)
        return f"(ite {self.truth(c.cond)} {self._rule(c.true_c)} {otherwise})"

    def _unique(self, c: Any) -> str:
        operands: list[Any] = []
        for each in c.unique_l:
            array = _array(each)
            operands += [each] if array is None else map(_Reference, self._elements(array))
        pairs = ((a, b) for k, a in enumerate(operands) for b in operands[k + 1 :])
        return all_of(f"(not {self._equal(a, b)})" for a, b in pairs)

    def _unique_vectors(self, c: Any) -> str:
        vectors = [list(map(_Reference, each.fm.field_l)) for each in c.unique_l]
        pairs = ((u, v) for k, u in enumerate(vectors) for v in vectors[k + 1 :])
        return all_of(
            any_of(f"(not {self._equal(a, b)})" for a, b in zip(u, v, strict=True))
            for u, v in pairs
        )

    def _elements(self, array: Any) -> list[Any]:
        """The elements that an array has."""
        if not array.is_rand_sz:
            return list(array.field_l)
        if array.size in self.names:
            raise Untranslatable("array-size", "an array whose size is solved with its elements")
        return list(array.field_l[: int(array.size.get_val())])

    # --- expressions ------------------------------------------------------------------------------

    def truth(self, e: Any) -> str:
        """The rule: this expression is not 0."""
        kind = type(e).__name__
        if kind == "ExprBinModel":
            name = e.op.name
            if e.is_composite or name in COMPARISONS or name in ("Eq", "Ne"):
                return self._compared(e)
            if name in ("And", "Or") and int(e.width()) == 1:
                return f"({name.lower()} {self.truth(e.lhs)} {self.truth(e.rhs)})"
        elif kind == "ExprUnaryModel" and int(e.width()) == 1:
            return f"(not {self.truth(e.expr)})"
        elif kind == "ExprInModel":
            return self._inside(e)
        elif kind == "ExprDynRefModel":
            return self._all(e.c)
        elif kind == "ExprIndexedDynRefModel":
            from vsc.visitors.expr2field_visitor import Expr2FieldVisitor

            owner = Expr2FieldVisitor().field(e.root, True)
            return self._all(owner.constraint_dynamic_model_l[e.idx])
        text, width = self.term(e)
        return f"(not (= {text} {literal(0, width)}))"

    def term(self, e: Any, context: int = 0) -> tuple[str, int]:
        """(text, width) of an expression within something of `context` bits."""
        read = _TERMS.get(type(e).__name__)
        if read is not None:
            return read(self, e, context)
        if type(e).__name__ in _TRUTHS:
            return f"(ite {self.truth(e)} #b1 #b0)", 1
        raise Untranslatable("construct", f"an expression of type {type(e).__name__}")

    def _field(self, field: Any) -> tuple[str, int]:
        name = self.names.get(field)
        if name is None:
            if not hasattr(field, "is_signed") or hasattr(field, "field_l"):
                raise Untranslatable("construct", f"{type(field).__name__} as a value")
            self.state[field] = int(field.val)
            name = literal(self.state[field], field.width)
        return name, field.width

    def _literal(self, e: Any, context: int) -> tuple[str, int]:
        width = max(int(e.width()), context)
        return literal(int(e.val()), width), width

    def _operands(self, a: Any, b: Any, context: int = 0) -> tuple[str, str, int, bool]:
        """Both operands at their common width; the width; are both signed?"""
        width = max(context, int(a.width()), int(b.width()))
        is_signed = bool(a.is_signed() and b.is_signed())
        left, right = (extended(*self.term(x, width), width, is_signed) for x in (a, b))
        return left, right, width, is_signed

    def _equal(self, a: Any, b: Any) -> str:
        left, right, *_ = self._operands(a, b)
        return f"(= {left} {right})"

    def _compared(self, e: Any, context: int = 0) -> str:
        if e.is_composite:
            if e.op.name != "Eq":
                raise Untranslatable("construct", "two objects that are compared by !=")
            return self._same(e.lhs.fm, e.rhs.fm)
        left, right, _, is_signed = self._operands(e.lhs, e.rhs, context)
        name = e.op.name
        if name in ("Eq", "Ne"):
            equal = f"(= {left} {right})"
            return equal if name == "Eq" else f"(not {equal})"
        return f"({COMPARISONS[name][is_signed]} {left} {right})"

    def _same(self, a: Any, b: Any) -> str:
        """Are two objects equal, field by field?"""
        if hasattr(a, "field_l"):
            return all_of(self._same(x, y) for x, y in zip(a.field_l, b.field_l, strict=True))
        return self._equal(_Reference(a), _Reference(b))

    def _binary(self, e: Any, context: int) -> tuple[str, int]:
        name = e.op.name
        if name not in ARITHMETIC or e.is_composite:
            return f"(ite {self._compared(e, context)} #b1 #b0)", 1
        left, right, width, is_signed = self._operands(e.lhs, e.rhs, context)
        return f"({ARITHMETIC[name][is_signed]} {left} {right})", width

    def _inverted(self, e: Any, context: int) -> tuple[str, int]:
        width = max(int(e.expr.width()), context)
        text = extended(*self.term(e.expr, width), width, bool(e.expr.is_signed()))
        return f"(bvnot {text})", width

    def _conditional(self, e: Any, context: int) -> tuple[str, int]:
        then, otherwise, width, _ = self._operands(e.true_e, e.false_e, context)
        return f"(ite {self.truth(e.cond_e)} {then} {otherwise})", width

    def _part(self, e: Any, context: int) -> tuple[str, int]:
        shifted = e.symbolic_bit()  # of x[i] with a random i: x >> i
        if shifted is not None:
            return f"((_ extract 0 0) {self.term(shifted)[0]})", 1
        high = int(e.upper.val())
        low = high if e.lower is None else int(e.lower.val())
        return f"((_ extract {high} {low}) {self.term(e.lhs)[0]})", high - low + 1

    def _inside(self, e: Any) -> str:
        if not e.rhs.rl:
            return "true"  # as PyVSC has it
        rules = []
        for each in e.rhs.rl:
            if type(each).__name__ == "ExprRangeModel":
                rules.append(
                    f"(and {self._ordered(each.lhs, e.lhs)} {self._ordered(e.lhs, each.rhs)})"
                )
            elif (array := _array(each)) is not None:
                rules += [self._equal(e.lhs, _Reference(x)) for x in self._elements(array)]
            else:
                rules.append(self._equal(e.lhs, each))
        return any_of(rules) if rules else "true"

    def _ordered(self, a: Any, b: Any) -> str:
        left, right, _, is_signed = self._operands(a, b)
        return f"({COMPARISONS['Le'][is_signed]} {left} {right})"

    def _chained(self, e: Any, context: int) -> tuple[str, int]:
        """array[i], object.field: the one field that is meant, or a choice by random indices."""
        from vsc.model.expr_indexed_field_ref_model import ref_alternatives

        *others, (_, last) = ref_alternatives(e)
        text, width = self._field(last)
        for conditions, field in reversed(others):
            texts = [self._is_index(index, k) for index, k in conditions]
            text = f"(ite {all_of(texts)} {self._field(field)[0]} {text})"
        return text, width

    def _is_index(self, index: Any, k: int) -> str:
        text, width = self.term(index)
        return f"(= {text} {literal(k, width)})" if k >> width == 0 else "false"

    def _total(self, e: Any, context: int) -> tuple[str, int]:
        """The sum or the product of an array."""
        self._elements(e.arr)
        return self.term(e.build_expr(), max(context, int(e.width())))


class _Reference:
    """A field as an expression."""

    def __init__(self, field: Any) -> None:
        self.fm = field

    def width(self) -> int:
        return int(self.fm.width)

    def is_signed(self) -> bool:
        return bool(self.fm.is_signed)


def _array(e: Any) -> Any:
    """The array that an expression names; None if it names none."""
    field = getattr(e, "fm", None)
    return field if hasattr(field, "is_rand_sz") else None


def literal(value: int, width: int) -> str:
    return f"(_ bv{value % (1 << width)} {width})"


def extended(text: str, width: int, wanted: int, is_signed: bool) -> str:
    if width >= wanted:
        return text
    return f"((_ {'sign' if is_signed else 'zero'}_extend {wanted - width}) {text})"


def all_of(rules: Iterable[str]) -> str:
    return _joined("and", "true", [each for each in rules if each != "true"])


def any_of(rules: Iterable[str]) -> str:
    return _joined("or", "false", list(rules))


def _joined(op: str, of_none: str, rules: list[str]) -> str:
    return f"({op} {' '.join(rules)})" if len(rules) > 1 else (rules or [of_none])[0]


_TRUTHS = {"ExprInModel", "ExprDynRefModel", "ExprIndexedDynRefModel"}
_TERMS: dict[str, Callable[[Translation, Any, int], tuple[str, int]]] = {
    "ExprLiteralModel": Translation._literal,
    "ExprFieldRefModel": lambda t, e, context: t._field(e.fm),
    "_Reference": lambda t, e, context: t._field(e.fm),
    "ExprBinModel": Translation._binary,
    "ExprUnaryModel": Translation._inverted,
    "ExprCondModel": Translation._conditional,
    "ExprPartselectModel": Translation._part,
    "ExprArraySubscriptModel": Translation._chained,
    "ExprIndexedFieldRefModel": Translation._chained,
    "ExprArraySumModel": Translation._total,
    "ExprArrayProductModel": Translation._total,
}
_RULES: dict[str, Callable[[Translation, Any], str]] = {
    "ConstraintExprModel": lambda t, c: t.truth(c.e),
    "ConstraintSoftModel": lambda t, c: t.truth(c.expr) if t._is_soft else "true",
    "ConstraintImpliesModel": lambda t, c: f"(=> {t.truth(c.cond)} {t._all(c)})",
    "ConstraintIfElseModel": Translation._alternative,
    "ConstraintUniqueModel": Translation._unique,
    "ConstraintUniqueVecModel": Translation._unique_vectors,
    "ConstraintSolveOrderModel": lambda t, c: "true",
    "ConstraintForeachModel": Translation._loop,
    "ConstraintOverrideModel": lambda t, c: t._rule(c.new_constraint),
    "ConstraintScopeModel": Translation._all,
    "ExprModel": Translation.truth,
}
