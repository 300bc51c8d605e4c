"""The shop's calculator: numbers, + - * / and parentheses, as Python reckons them.

Owns the walk over a parsed expression. No text is evaluated: what is no number, operator or
parenthesis is refused, and a power that would take long is none.

    calculated("2 + 3 * (4 - 1)")      # "11.0"
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

ALLOWED = "0123456789+-*/(). "
POWER_BITS = 65_536
"""Whole powers beyond are refused; the released calculator reckons until its memory ends."""


def calculated(expression: object) -> str:
    """The value of an expression, rounded to two places.

    Raises:
        ValueError: it holds other characters.
        SyntaxError: it is no expression.
        ArithmeticError: it divides by zero, or is too large.
        TypeError: it is no text, or no number.
    """
    if not all(one in ALLOWED for one in iter_of(expression)):
        raise ValueError("Invalid characters in expression")
    if not isinstance(expression, str):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    tree = ast.parse(expression.lstrip(" "), "<string>", "eval")
    return str(round(float(_value(tree.body)), 2))


def iter_of(value: Any) -> Any:
    """The value, which must be iterable; raises TypeError as a loop over it does."""
    return iter(value)


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and base.bit_length() * exponent > POWER_BITS:
        raise OverflowError("int too large to convert to float")
    return base**exponent


_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple) and not node.elts:
        return ()
    if isinstance(node, ast.Call):
        called, _ = _value(node.func), [_value(one) for one in node.args]
        raise TypeError(f"'{type(called).__name__}' object is not callable")
    raise TypeError(f"a {type(node).__name__.lower()} is not a number")
