"""Finds the SQL statements of a backend, so that each of them has a test."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["hidden_statements", "statements_of"]

VERB = re.compile(r"\s*(SELECT|INSERT|REPLACE|UPDATE|DELETE|WITH)\b")
TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:items|blobs|blob_bodies|messages|message_groups|dead_letters)\b")
READ = re.compile(r"\b(?:(?:FROM|JOIN|UPDATE)\s+|REPLACE\s+INTO\s+)(?:items|blob|message|dead_letters)")


def statements_of(*modules: ModuleType) -> dict[str, str]:
    """Return the statements on tables that grow, by the names of the constants of the modules that have them."""
    return {
        name: text
        for module in modules
        for constant in _assigned(module)
        for name, text in _texts(f"{module.__name__.rpartition('.')[2]}.{constant}", getattr(module, constant))
        if VERB.match(text) and TABLE.search(text)
    }


def hidden_statements(*modules: ModuleType) -> list[str]:
    """Return the texts in functions of the modules that read a table that grows: only a constant has a case."""
    return [
        node.value
        for module in modules
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and READ.search(node.value)
    ]


def _assigned(module: ModuleType) -> Iterator[str]:
    """Yield the constants that the module assigns, without those that it imports."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, text in value.items():
            if isinstance(text, str):
                yield f"{name}[{key}]", text
