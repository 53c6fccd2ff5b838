"""Converts our docstrings to the markup that Sphinx reads, and defaults in signatures to their names.

A built-in class in a signature gets no link: Sphinx would take ``type`` for an attribute of this name.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any, get_origin

import msgspec
from sphinx.addnodes import desc_sig_name, pending_xref
from sphinx.util.inspect import object_description

__all__ = ["as_markup", "connect", "with_named_defaults"]

UNDERLINE = re.compile(r"^-{3,}$")
MODULE_LINE = re.compile(r"^(\w+)  +(\S.*)$")


def connect(app: Any) -> None:
    """Register `as_markup` for every docstring, and `with_named_defaults` for every signature."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("doctree-read", _without_builtin_links)


def _without_builtin_links(app: Any, doctree: Any) -> None:
    for link in list(doctree.findall(pending_xref)):
        if link["reftype"] == "class" and hasattr(builtins, link["reftarget"]):
            link.replace_self(desc_sig_name("", link["reftarget"]))


def _process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Convert one docstring in place. For a value without a docstring, remove the docstring of its type or alias."""
    if what == "module" and getattr(thing, "__all__", None):
        lines[:] = without_modules(lines)
    kinds = (type(thing), get_origin(thing))
    if what in ("data", "attribute") and "\n".join(lines).strip() in map(inspect.getdoc, kinds):
        lines.clear()
    lines[:] = as_markup(lines)


def _process_signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    if signature is not None and inspect.isclass(thing) and issubclass(thing, msgspec.Struct):
        signature = with_named_defaults(thing, signature)
    return signature, returns


def with_named_defaults(struct: type[msgspec.Struct], signature: str) -> str:
    """Name each mapping and function among the defaults that has a name in the module of ``struct``.

    Sphinx shows defaults as in the source, but reads no source of the signature that a Struct has. A default that is a
    Struct is shown by the name of its class, and a default that a function makes by an ellipsis: Sphinx cannot parse
    ``<factory>``, and would then show the whole signature as one line of full names.
    """
    for default in struct.__struct_defaults__:
        if isinstance(default, msgspec.Struct):
            signature = signature.replace(f"= {object_description(default)}", f"= {type(default).__name__}()")
    signature = signature.replace("= <factory>", "= ...").replace("=<factory>", "=...")
    defaults = [default for default in struct.__struct_defaults__ if isinstance(default, Mapping) or callable(default)]
    for name, value in vars(sys.modules[struct.__module__]).items():
        if any(value is default for default in defaults):
            signature = signature.replace(f"= {object_description(value)}", f"= {name}")
    return signature


def without_modules(lines: list[str]) -> list[str]:
    """Cut a package's docstring before its first heading, where the list of its private modules begins."""
    ends = (number - 1 for number, line in enumerate(lines) if UNDERLINE.match(line) and number)
    return lines[: next(ends, len(lines))]


def as_markup(lines: list[str]) -> list[str]:
    """Turn a heading into a rubric, and a list of modules into a list of definitions."""
    made: list[str] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if UNDERLINE.match(line):
            continue
        if line and UNDERLINE.match(following):
            made += [f".. rubric:: {line}", ""]
        elif matches := MODULE_LINE.match(line):
            made += [f"``{matches[1]}``", f"   {matches[2]}"]
        else:
            made.append(line)
    return made
