"""Conditions on the values of samples, such as ``tokens > 2048 and jpg.width >= 512``.

A condition is an expression in a subset of Python's syntax, with names of values as in
:mod:`..documents.value_name`. It is evaluated on numpy arrays, and nothing of it is run as code. Comparisons with a
missing value are unknown, as in SQL: a sample is chosen only if the whole condition is known to be true.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ConfigError
from ...format.columns.column import ComparedValues
from ...format.documents.value_name import value_name_end

_MAX_CHARACTERS = 10_000
_WORD = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>\d[\w.]*)|(?P<name>[^\W\d])""", re.DOTALL
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALLOWED = (
    "use values, numbers, texts, and, or, not, < <= > >= == !=, in, + - * / // %, ceil floor round sqrt min max, "
    "and known(…), size(…), has(…)"
)

_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = {
    "ceil": (np.ceil, 1),
    "floor": (np.floor, 1),
    "round": (np.round, 1),
    "sqrt": (np.sqrt, 1),
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
}
"""Functions of values, and how many values each takes at least; those of two take more one after another."""

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_Bools = npt.NDArray[np.bool_]
_Truth = tuple[Any, Any]
"""Arrays of bools, or single ones: where a condition is true, if it is known there; where it is known."""


ValuesOf = Callable[[str, bool], ComparedValues]
"""Returns the values of a name for some samples; with True, the sizes in bytes of the part of this name, if any."""

_Value = ComparedValues | int | float | str


class Condition:
    """A parsed condition.

    >>> Condition("tokens > 2048 and width >= 512").columns
    ('tokens', 'width')
    >>> Condition("json[a][b] == 'x' or jpg.width < 9").columns
    ('jpg.width', 'json[a][b]')
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._names: dict[str, str] = {}  # those that are no identifiers, by the identifiers that replace them
        try:
            if len(text) > _MAX_CHARACTERS:
                raise self._invalid(f"it has {len(text):,} characters")
            self._tree = ast.parse(self._with_identifiers(text.strip()), mode="eval").body
            self._check(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._invalid(str(error).partition(" (<unknown>")[0] or type(error).__name__) from error

    @property
    def columns(self) -> tuple[str, ...]:
        called = {node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        names = (
            self._name(node.id) for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node not in called
        )
        return tuple(sorted(set(names)))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts in ``size(…)`` and ``has(…)``, sorted.

        >>> Condition('size("jpg") > 9 and has("txt") and width > 3').parts
        ('jpg', 'txt')
        """
        calls = (node for node in ast.walk(self._tree) if isinstance(node, ast.Call))
        return tuple(sorted({str(arg.value) for call in calls for arg in call.args if isinstance(arg, ast.Constant)}))

    def holds(self, source: ValuesOf, samples: int) -> _Bools:
        """Return True for the samples for which the condition is known to be true, shape (samples,)."""
        with np.errstate(all="ignore"):
            is_true, known = self._truth(self._tree, source)
        return np.broadcast_to(is_true & known, (samples,))

    def numbers(self, source: ValuesOf, samples: int) -> ComparedValues:
        """Return the results of a formula, shape (samples,): of ``ceil(width / 28) * ceil(height / 28)``.

        Raises:
            ConfigError: The result is a text or a date.
        """
        with np.errstate(all="ignore"):
            value = self._value(self._tree, source)
        if _is_text(value) or (isinstance(value, ComparedValues) and value.with_text is not None):
            raise self._invalid("expected a number, found a text or a date")
        values = np.broadcast_to(np.asarray(_plain(value), np.float64), (samples,))
        return ComparedValues(values, np.broadcast_to(_known(value), (samples,)))

    # -------------------------------------------------------------------------------------------------- names

    def _with_identifiers(self, text: str) -> str:
        # Choose a prefix that the condition does not contain, so that no name is taken twice.
        start = "value"
        while start in text:
            start += "_"
        pieces, position = list[str](), 0
        # Replace names; texts and numbers stay as they are.
        while word := _WORD.search(text, position):
            end = value_name_end(text, word.start()) if word["name"] else word.end()
            piece = text[word.start() : end]
            if word["name"] and not _PLAIN.fullmatch(piece):
                name, piece = piece, f"{start}{len(self._names)}"
                self._names[piece] = name
            pieces += [text[position : word.start()], piece]
            position = end
        return "".join((*pieces, text[position:]))

    def _name(self, identifier: str) -> str:
        return self._names.get(identifier, identifier)

    def _shown(self, node: ast.expr) -> str:
        return re.sub(r"\w+", lambda word: self._name(word[0]), ast.unparse(node))

    # -------------------------------------------------------------------------------------------------- checks

    def _check(self, node: ast.expr) -> None:
        # Forms that are not listed here are refused, so that nothing is run as code.
        match node:
            case ast.BoolOp(values=values):
                inner = values
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
                inner = [operand]
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATIONS:
                inner = [left, right]
            case ast.Compare(ops=ops, left=left, comparators=comparators):
                inner = self._compared(ops, left, comparators)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                takes = _FUNCTIONS[name][1]
                if len(arguments) < takes or (takes == 1 and len(arguments) > 1):
                    raise self._invalid(f"{name} takes {'one value' if takes == 1 else 'two values or more'}")
                inner = arguments
            case (
                ast.Call(func=ast.Name(id="known"), args=[ast.Name()], keywords=[])
                | ast.Call(func=ast.Name(id="size" | "has"), args=[ast.Constant(value=str())], keywords=[])
                | ast.Name()
                | ast.Constant(value=int() | float() | str())
            ):
                inner = []
            case _:
                raise self._invalid(f"{self._shown(node)!r} is not allowed")
        for each in inner:
            self._check(each)

    def _compared(self, ops: list[ast.cmpop], left: ast.expr, comparators: list[ast.expr]) -> list[ast.expr]:
        inner = [left]
        for op, right in zip(ops, comparators, strict=True):
            if type(op) in _COMPARISONS:
                inner.append(right)
            elif isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple | ast.Set):
                inner += right.elts
            elif isinstance(op, ast.In | ast.NotIn):
                raise self._invalid(f"expected a list after 'in', found {self._shown(right)!r}")
            else:
                raise self._invalid("'is' is not allowed; use ==")
        return inner

    def _invalid(self, fault: str) -> ConfigError:
        return ConfigError(f"invalid condition: {fault}", at=self.text[:200], hint=_ALLOWED)

    # ---------------------------------------------------------------------------------------------- evaluation

    def _truth(self, node: ast.expr, source: ValuesOf) -> _Truth:
        # Conditions of conditions: "false and unknown" is known, and so is "true or unknown".
        match node:
            case ast.BoolOp(op=op, values=values):
                is_true, known = self._truth(values[0], source)
                for each in values[1:]:
                    other, other_known = self._truth(each, source)
                    if isinstance(op, ast.And):
                        known = (known & other_known) | (known & ~is_true) | (other_known & ~other)
                        is_true = is_true & other
                    else:
                        is_true, known = (known & is_true) | (other_known & other), known & other_known
                        known = known | is_true
                return is_true, known
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                is_true, known = self._truth(operand, source)
                return ~is_true, known
            # Comparisons, and questions about the existence of values.
            case ast.Compare(ops=ops, left=left, comparators=comparators):
                is_true, known = np.True_, np.True_
                for sign, right in zip(ops, comparators, strict=True):
                    compared, compared_known = self._comparison(sign, left, right, source)
                    is_true, known, left = is_true & compared, known & compared_known, right
                return is_true, known
            case ast.Call(func=ast.Name(id="known"), args=[ast.Name(id=name)]):
                exists = source(self._name(name), False).known
                return exists, np.ones_like(exists)
            case ast.Call(func=ast.Name(id="has"), args=[ast.Constant(value=str(part))]):
                exists = source(part, True).known
                return exists, np.ones_like(exists)
        # A number alone is true unless it is 0.
        value = self._value(node, source)
        if _is_text(value) or (isinstance(value, ComparedValues) and value.with_text is not None):
            raise self._invalid(f"expected a comparison, found {self._shown(node)!r} alone")
        if isinstance(value, ComparedValues):
            return value.values != 0, value.known
        return np.bool_(value), np.True_

    def _comparison(self, op: ast.cmpop, left: ast.expr, right: ast.expr, source: ValuesOf) -> _Truth:
        if isinstance(op, ast.In | ast.NotIn):
            # `in` compares with each element, and joins the answers by `or`.
            comparisons = [self._comparison(ast.Eq(), left, each, source) for each in right.elts]  # type: ignore[attr-defined]
            if not comparisons:
                return np.bool_(isinstance(op, ast.NotIn)), np.True_
            is_true, known = comparisons[0]
            for other, other_known in comparisons[1:]:
                is_true, known = is_true | other, known & other_known
            return (is_true if isinstance(op, ast.In) else ~is_true), known
        # Other comparisons are between two texts, two numbers or two values of a kind, such as dates.
        first, second = self._value(left, source), self._value(right, source)
        known = _known(first) & _known(second)
        kinds = [value.with_text for value in (first, second) if isinstance(value, ComparedValues) and value.with_text]
        if kinds:
            first, second = self._of_kind(first, second, kinds, f"{self._shown(left)!r} and {self._shown(right)!r}")
            return _COMPARISONS[type(op)](first, second), known
        if _is_text(first) != _is_text(second):
            raise self._invalid(f"{self._shown(left)!r} and {self._shown(right)!r}: one is a text, the other a number")
        if _is_text(first):
            first, second = _with_common_categories(first, second)
            known = _known(first) & _known(second)
        return _COMPARISONS[type(op)](_plain(first), _plain(second)), known

    def _of_kind(self, first: _Value, second: _Value, kinds: Sequence[Callable[..., Any]], shown: str) -> Any:
        """Return values of a kind, and the other values or the text that they are compared with."""
        try:
            if isinstance(second, str):
                return kinds[0](_plain(first), second)
            if isinstance(first, str):
                return kinds[0](_plain(second), first)[::-1]
        except ValueError as error:
            raise self._invalid(f"{shown}: {error}") from error
        if len({*kinds}) > 1 or len(kinds) < 2:
            raise self._invalid(f"{shown}: they are of two kinds; a date is written as a text: '2024-03-05'")
        return _plain(first), _plain(second)

    def _value(self, node: ast.expr, source: ValuesOf) -> _Value:
        match node:
            case ast.Constant(value=int() | float() | str() as value):
                return value
            case ast.Name(id=name):
                named = source(self._name(name), False)
                if named.values.ndim > 1:
                    shown = self._shown(node)
                    raise self._invalid(f"{shown!r} is a column of vectors, which have no order; use known({shown})")
                return named
            case ast.Call(func=ast.Name(id="size"), args=[ast.Constant(value=str(part))]):
                return source(part, True)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._number(0, operand, operator.sub, source)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._number(0, operand, operator.add, source)
            case ast.BinOp(op=op, left=left, right=right):
                return self._number(left, right, _OPERATIONS[type(op)], source)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
                return self._result(name, [self._value(each, source) for each in arguments])
        # A condition inside of a comparison or a calculation is a value.
        is_true, known = self._truth(node, source)
        return ComparedValues(np.asarray(is_true), np.asarray(known))

    def _number(
        self, left: ast.expr | int, right: ast.expr, operation: Callable[[Any, Any], Any], source: ValuesOf
    ) -> _Value:
        first = left if isinstance(left, int) else self._value(left, source)
        second = self._value(right, source)
        if any(_is_text(value) or (isinstance(value, ComparedValues) and value.with_text) for value in (first, second)):
            raise self._invalid("texts are compared, not calculated with; so are dates")
        try:
            # Unsigned and small integers would wrap round.
            result = operation(_widened(first), _widened(second))
        except (ZeroDivisionError, OverflowError) as error:
            raise self._invalid(str(error)) from error
        if isinstance(first, ComparedValues) or isinstance(second, ComparedValues):
            return ComparedValues(result, _known(first) & _known(second) & np.isfinite(result))
        return result  # type: ignore[no-any-return]

    def _result(self, name: str, values: Sequence[_Value]) -> _Value:
        if any(_is_text(value) or (isinstance(value, ComparedValues) and value.with_text) for value in values):
            raise self._invalid("texts are compared, not calculated with; so are dates")
        function, takes = _FUNCTIONS[name]
        numbers = [_widened(value) for value in values]
        result = function(*numbers) if takes == 1 else functools.reduce(function, numbers)
        if any(isinstance(value, ComparedValues) for value in values):
            known = functools.reduce(operator.and_, map(_known, values))
            return ComparedValues(result, known & np.isfinite(result))
        return result  # type: ignore[no-any-return]


def _is_text(value: _Value) -> bool:
    return isinstance(value, str) or (isinstance(value, ComparedValues) and value.categories is not None)


def _known(value: _Value) -> Any:
    return value.known if isinstance(value, ComparedValues) else np.True_


def _plain(value: _Value) -> Any:
    return value.values if isinstance(value, ComparedValues) else value


def _widened(value: _Value) -> Any:
    if not isinstance(value, ComparedValues):
        return value
    return value.values.astype(np.float64 if value.values.dtype.kind in "fu" else np.int64)


def _with_common_categories(*values: _Value) -> tuple[ComparedValues, ComparedValues]:
    """Return texts as ranks in the sorted list of all their texts, so that they compare as texts do."""
    listed = [value.categories or () if isinstance(value, ComparedValues) else (str(value),) for value in values]
    ranks = {text: rank for rank, text in enumerate(sorted({text for texts in listed for text in texts}))}
    ranked = []
    for value, texts in zip(values, listed, strict=True):
        # Translate positions in the list of this value to ranks.
        table = np.array([ranks[text] for text in texts] or [0], np.int64)
        if not isinstance(value, ComparedValues):
            ranked.append(ComparedValues(table[:1], np.ones(1, np.bool_)))
            continue
        is_valid = value.known & (value.values >= 0) & (value.values < len(texts))
        ranked.append(ComparedValues(table[np.where(is_valid, value.values, 0)], is_valid))
    return ranked[0], ranked[1]
