"""The possible changes of a module. A mutant changes only code inside functions.

The operators are usual in mutation testing. The most important operator here leaves out one statement, such as a
second read of a condition. Annotations, docstrings, ``__repr__`` and the texts of errors stay unchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Mutant", "count_mutants", "mutant_of"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LEFT_OUT = "statement left out"
BLOCKS = ("body", "orelse", "finalbody")


class Mutant(msgspec.Struct, frozen=True):
    """One change of one statement. ``number`` is the change's position among the changes of the module."""

    path: str
    number: int
    line: int
    function: str
    operator: str
    before: str
    after: str
    source: str
    """The whole module with the change."""

    @property
    def name(self) -> str:
        """A name that is unique among the mutants of a commit."""
        return f"{self.path}:{self.line}#{self.number}"


class Change(msgspec.Struct, frozen=True):
    """A change that sets ``field`` of ``node`` to ``value``."""

    operator: str
    node: ast.AST
    field: str
    value: Any


def count_mutants(path: Path) -> int:
    """Return the number of changes of a module. The count includes changes that Python does not compile."""
    return sum(1 for _ in _all_changes(ast.parse(path.read_text())))


def mutant_of(path: Path, root: Path, number: int) -> Mutant | None:
    """Return the mutant ``number``, counted from 0, or None if Python does not compile the mutant.

    The same text of a module always gives the same mutant.
    """
    tree = ast.parse(path.read_text())
    function, statement, change = next(islice(_all_changes(tree), number, None))
    before = ast.unparse(statement)
    setattr(change.node, change.field, change.value)
    source = ast.unparse(ast.fix_missing_locations(tree))
    after = "" if change.operator == LEFT_OUT else ast.unparse(statement)
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return None
    name = path.relative_to(root).as_posix()
    return Mutant(name, number, statement.lineno, function, change.operator, before, after, source)


def _all_changes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, Change]]:
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        if function.name == "__repr__":
            continue
        for block, field in _blocks(function):
            statements: list[ast.stmt] = getattr(block, field)
            for at, statement in enumerate(statements):
                if _may_be_left_out(statement):
                    left = [*statements[:at], ast.Pass(), *statements[at + 1 :]]
                    yield function.name, statement, Change(LEFT_OUT, block, field, left)
                for node in _own_nodes(statement):
                    yield from ((function.name, statement, change) for change in _changes(node))


def _blocks(function: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield every block of statements in a function, except the blocks of nested functions and classes."""
    for field in BLOCKS:
        if statements := getattr(function, field, []):
            yield function, field
            for inner in statements:
                if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield from _blocks(inner)
    for part in [*getattr(function, "handlers", []), *getattr(function, "cases", [])]:
        yield from _blocks(part)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without the statement's blocks and annotations.

    A raise, an assert, a nested function and a class yield nothing.
    """
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Raise | ast.Assert):
        return
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field not in (*BLOCKS, "annotation", "cases"):
                children = value if isinstance(value, list) else [value]
                waiting += [child for child in reversed(children) if isinstance(child, ast.AST)]


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Constant):
            yield Change("condition negated", node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Compare(ops=[operator, *others]) if type(operator) in COMPARISONS:
            yield Change("comparison", node, "ops", [COMPARISONS[type(operator)](), *others])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            yield Change("arithmetic", node, "op", ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield Change("and, or", node, "op", ast.Or() if isinstance(operator, ast.And) else ast.And())
            yield Change("operand left out", node, "values", node.values[:-1])
        case ast.UnaryOp(op=ast.Not()):
            yield Change("not left out", node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool(value)):
            yield Change("truth", node, "value", not value)
        case ast.Constant(value=int(value)):
            yield Change("number", node, "value", value + 1)
        case ast.For() | ast.comprehension():
            yield Change("loop left out", node, "iter", ast.Tuple([], ast.Load()))
        case ast.ExceptHandler():
            yield Change("handler left out", node, "type", ast.Tuple([], ast.Load()))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield Change("answer", node, "value", ast.Constant(None))


def _may_be_left_out(statement: ast.stmt) -> bool:
    """Return whether a mutant may leave the statement out.

    A mutant never leaves out a docstring. A mutant never leaves out the assignment of a name, since any test that runs
    the code would notice the change.
    """
    match statement:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Assign(targets=[ast.Name() | ast.Tuple()]):
            return False
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Return():
            return True
        case _:
            return isinstance(statement, ast.Continue | ast.Break)
