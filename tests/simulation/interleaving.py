"""Yield points at the accesses of shared attributes, so that a scheduler can switch actors between two accesses.

Threads of one handle race on its attributes, not only at port calls. `Interleaving` rebuilds the functions of modules
from their source: each load and store of a shared attribute calls a hook first. An attribute is shared if any function
other than ``__init__`` assigns it, deletes it, or changes the container in it. So no list of attributes is needed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

__all__ = ["Interleaving", "shared_attributes"]

T = TypeVar("T")

HOOK = "_yield_here"
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem"),
    *("popleft", "remove", "setdefault", "update"),
}
"""Methods that change a container."""


class Interleaving:
    """Copies of the functions of ``modules`` with yield points.

    Inside the block of `active`, a call of such a function runs its copy, and the copy calls the given hook.
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._modules = list(modules)
        trees = [ast.parse(inspect.getsource(module)) for module in self._modules]
        self.shared = frozenset().union(*map(shared_attributes, trees))
        self._changed: list[tuple[FunctionType, CodeType, CodeType]] = []
        for module, tree in zip(self._modules, trees, strict=True):
            self._rebuild(module, ast.fix_missing_locations(_Yields(self.shared).visit(tree)))

    @property
    def functions(self) -> int:
        """The number of functions with yield points."""
        return len(self._changed)

    @contextmanager
    def active(self, hook: Callable[[], None]) -> Iterator[None]:
        """Call ``hook`` before each access of a shared attribute inside the block."""

        def yield_here(value: T) -> T:
            hook()
            return value

        for module in self._modules:
            vars(module)[HOOK] = yield_here
        for function, _, stepped in self._changed:
            function.__code__ = stepped
        try:
            yield
        finally:
            for function, plain, _ in self._changed:
                function.__code__ = plain
            for module in self._modules:
                del vars(module)[HOOK]

    def _rebuild(self, module: ModuleType, tree: ast.Module) -> None:
        codes = {code.co_qualname: code for code in _codes(compile(tree, module.__file__ or module.__name__, "exec"))}
        for function in _functions(module):
            plain, stepped = function.__code__, codes.get(function.__code__.co_qualname)
            if stepped is not None and _names(stepped) and stepped.co_freevars == plain.co_freevars:
                self._changed.append((function, plain, stepped))


def shared_attributes(tree: ast.AST) -> frozenset[str]:
    """Return the attributes that functions except ``__init__`` assign or delete, or whose containers they change."""
    shared: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "__init__":
            shared.update(filter(None, map(_changed_attribute, ast.walk(function))))
    return frozenset(shared)


def _changed_attribute(node: ast.AST) -> str | None:
    """Return the attribute that a node assigns or deletes, or the attribute whose container the node changes."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.attr
    container: ast.AST | None = None
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        container = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        container = node.func.value
    return container.attr if isinstance(container, ast.Attribute) else None


class _Yields(ast.NodeTransformer):
    """Inserts a call of the hook before each access: `a.b` becomes `hook(a).b`."""

    def __init__(self, shared: frozenset[str]) -> None:
        self._shared = shared

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        if node.attr in self._shared:
            node.value = _hooked(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign:
        """Insert a second call into `a.b += c`, between the load and the store of `a.b`."""
        self.generic_visit(node)
        if isinstance(node.target, ast.Attribute) and node.target.attr in self._shared:
            node.value = _hooked(node.value)
        return node


def _hooked(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(HOOK, ast.Load()), [value], []), value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a module's code and all nested code."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType) -> bool:
    """Return whether the code, or code nested in it, calls the hook."""
    return any(HOOK in each.co_names for each in _codes(code))


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions that a module defines, and the functions of its classes."""
    for value in list(vars(module).values()):
        members = list(vars(value).values()) if inspect.isclass(value) else [value]
        for member in members:
            for function in _unwrapped(member):
                if function.__module__ == module.__name__:
                    yield function


def _unwrapped(member: Any) -> Iterator[FunctionType]:
    """Yield the undecorated functions behind a member of a class or module, such as a property or a context manager."""
    if isinstance(member, property):
        parts = [member.fget, member.fset]
    else:
        parts = [getattr(member, "__func__", None) or getattr(member, "func", None) or inspect.unwrap(member)]
    yield from (part for part in parts if isinstance(part, FunctionType))
