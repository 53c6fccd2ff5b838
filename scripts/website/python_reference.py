"""Pages of the public Python modules: every name of each ``__all__``, described by its docstring.

A page also describes the private classes that a caller of the module meets: the bases of its classes, and the results
of its functions and methods.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from scripts.website.markup import code, table
from scripts.website.navigation import contents

__all__ = ["python_pages"]

FOLDER = "reference/python"
# If several modules export a name, the page of the first module describes it.
MODULES = [
    "stratalog.errors",
    "stratalog.clock",
    "stratalog.settings",
    "stratalog.server",
    "stratalog.client",
    "stratalog.worker",
    "stratalog.cli",
    "stratalog.testing",
    "stratalog.codec",
    "stratalog.keys",
    "stratalog.group_commit",
    "stratalog.retry",
    "stratalog.process_fork",
    "stratalog.struct_types",
    "stratalog.extras",
    "stratalog",
]
# The modules of the applications that a program may import.
APPLICATIONS = ["stratalog_sheet", "stratalog_table", "stratalog_table.queue_path", "stratalog_table.rows"]
PAGES = [*MODULES, *APPLICATIONS]
# A class with more public methods has its own page.
METHODS_ON_A_MODULE_PAGE_MAX = 8
# The module whose page begins with its functions: readers look for `stratalog.open` and `stratalog.maintain`.
FUNCTIONS_FIRST = "stratalog"
# The modules whose pages also describe the results of their functions and methods: users call these every day.
WITH_RESULTS = {"stratalog", "stratalog.client", "stratalog_sheet", "stratalog_table"}
# By module: a type alias of Litestar that the module uses. The alias's definition contains names of types as strings,
# which Sphinx would have to resolve. So the pages show only the name of the alias.
ALIASES = {"stratalog.server.application": "ControllerRouterHandler"}
INDEX = """# Python API

These are the public modules. Everything else is private and may change with any release. The build makes the pages from
the docstrings.

| module | contents |
| --- | --- |
| [`stratalog`](stratalog.rst) | stores, documents, logs and records: start here |
"""


def python_pages() -> dict[str, str]:
    """Return the pages by their path in the source folder."""
    modules = {name: module for public in PAGES for name, module in with_submodules(public)}
    homes = homes_of(modules)
    for name in {value.__module__ for value in described(modules)}:
        import_types(import_module(name))
    pages: dict[str, str] = {}
    for name, module in modules.items():
        below = [] if names_of(module) else [other for other in modules if other.startswith(f"{name}.")]
        page = f"{FOLDER}/{name}.rst"
        pages |= module_pages(name, module, homes, below)
        pages[page] += "".join(private_parts(name, module, homes))
    pages[f"{FOLDER}/stratalog.limits.md"] = limits_page()
    listed = ["stratalog", *(name for name in PAGES if name != "stratalog"), "stratalog.limits"]
    rows = [f"| [`{name}`]({_file(name)}) | {_title(import_module(name))} |" for name in listed[1:]]
    toc = contents(f"{FOLDER}/{name}" for name in listed).replace(":maxdepth: 1", ":maxdepth: 1\n:hidden:")
    return pages | {f"{FOLDER}/index.md": INDEX + "\n".join(rows) + "\n\n" + toc}


def _file(name: str) -> str:
    return f"{name}.md" if name == "stratalog.limits" else f"{name}.rst"


def _title(module: object) -> str:
    """Return the summary of a docstring, in one line."""
    return " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())


def with_submodules(name: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield a public module. If it is a package that exports nothing itself, yield its modules too."""
    module = import_module(name)
    yield name, module
    if not names_of(module) and hasattr(module, "__path__"):
        for below in pkgutil.iter_modules(module.__path__):
            yield f"{name}.{below.name}", import_module(f"{name}.{below.name}")


def import_types(module: ModuleType) -> None:
    """Run a module's imports for type checking, so that Sphinx can resolve the types in the module's signatures.

    Replace the module's alias in `ALIASES` by an empty class with the name of the alias.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec("\n".join(map(ast.unparse, node.body)), vars(module))
    if alias := ALIASES.get(module.__name__):
        setattr(module, alias, type(alias, (), {"__module__": "litestar.types"}))


def names_of(module: ModuleType) -> list[str]:
    return [name for name in getattr(module, "__all__", []) if not name.startswith("__")]


def described(modules: Mapping[str, ModuleType]) -> Iterator[type]:
    """Yield every public class."""
    values = (getattr(module, name) for module in modules.values() for name in names_of(module))
    return (value for value in values if inspect.isclass(value))


def homes_of(modules: Mapping[str, ModuleType]) -> dict[int, str]:
    """Return the full names under which the pages describe classes and functions, by the `id()` of each object."""
    homes: dict[int, str] = {}
    for module_name, module in modules.items():
        for name in names_of(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                homes.setdefault(id(value), f"{module_name}.{name}")
    return homes


def module_pages(name: str, module: ModuleType, homes: Mapping[int, str], below: list[str]) -> dict[str, str]:
    """Return a module's page, and the pages of its large classes."""
    home = {each: homes.get(id(getattr(module, each)), f"{name}.{each}") for each in names_of(module)}
    own = [each for each, full in home.items() if full == f"{name}.{each}"]
    elsewhere = [full for each, full in home.items() if each not in own]
    large = [each for each in own if inspect.isclass(getattr(module, each)) and is_large(getattr(module, each))]
    parts = [heading(name), f".. automodule:: {name}\n   :no-members:\n"]
    listed = [f"{name}.{each}" for each in large] + below
    if listed:
        parts.append(".. toctree::\n   :hidden:\n\n" + "".join(f"   /{FOLDER}/{each}\n" for each in listed))
    parts += [f":doc:`{each} <{name}.{each}>`\n   {_title(getattr(module, each))}\n" for each in large]
    parts += [f":doc:`{each}`\n   {_title(import_module(each))}\n" for each in below]
    if elsewhere:
        names = (f":py:obj:`{full.rpartition('.')[2]} <{full}>`" for full in elsewhere)
        parts.append("Also here, and described elsewhere: " + ", ".join(names) + ".\n")
    parts += [directive(name, each, getattr(module, each)) for each in _ordered(module, own) if each not in large]
    pages = {f"{FOLDER}/{name}.rst": "\n".join(parts)}
    for each in large:
        full = f"{name}.{each}"
        pages[f"{FOLDER}/{full}.rst"] = "\n".join([heading(each), directive(name, each, getattr(module, each))])
    return pages


def private_parts(name: str, module: ModuleType, homes: dict[int, str]) -> Iterator[str]:
    """Yield the descriptions of private classes that callers of the module meet. Adds the classes to ``homes``."""
    own = [
        getattr(module, each) for each in names_of(module) if homes.get(id(getattr(module, each))) == f"{name}.{each}"
    ]
    met = [base for value in own if inspect.isclass(value) for base in value.__mro__[1:] if has_own_methods(base)]
    if name in WITH_RESULTS:
        met += [result for value in own for function in functions_of(value) for result in results_of(function)]
    heading = "\n.. rubric:: Other classes\n\nCallers meet these classes, but no public module exports them.\n\n"
    while met:
        value = met.pop(0)
        if id(value) in homes or value.__name__.startswith("_"):
            continue
        homes[id(value)] = f"{value.__module__}.{value.__qualname__}"
        yield heading + directive(value.__module__, value.__qualname__, value) + "\n"
        heading = ""
        if issubclass(value, msgspec.Struct):
            met += [part for hint in get_type_hints(value).values() for part in structs_in(hint)]


def has_own_methods(value: type) -> bool:
    """Return whether a class of the library has public methods of its own."""
    methods = [name for name, member in vars(value).items() if inspect.isfunction(member) and not name.startswith("_")]
    return value.__module__.startswith("stratalog") and bool(methods)


def functions_of(value: object) -> Iterator[Any]:
    """Yield the function itself, or the public methods and properties of a class, and the class if it has fields."""
    if inspect.isfunction(value):
        yield value
    elif inspect.isclass(value):
        for name, member in vars(value).items():
            if not name.startswith("_"):
                yield member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if issubclass(value, msgspec.Struct):
            yield value


def results_of(function: Any) -> Iterator[type]:
    """Yield the classes with fields that a function returns, or that are fields of a class."""
    if inspect.isclass(function):
        yield from (part for hint in get_type_hints(function).values() for part in structs_in(hint))
    elif inspect.isfunction(function):
        yield from structs_in(get_type_hints(function).get("return"))


def structs_in(hint: Any) -> Iterator[type]:
    """Yield the classes with fields in a type, such as ``Version`` in ``Iterator[Version]``."""
    if (
        inspect.isclass(hint)
        and issubclass(hint, msgspec.Struct)
        and not hint.__module__.startswith("stratalog.ports.")
    ):
        yield hint
    for argument in get_args(hint):
        yield from structs_in(argument)


def _ordered(module: ModuleType, names: list[str]) -> list[str]:
    """Sort names: classes, functions, values, each in the order of ``__all__``.

    For the module FUNCTIONS_FIRST, functions come first.
    """
    functions_first = module.__name__ == FUNCTIONS_FIRST
    return sorted(names, key=lambda name: _rank(getattr(module, name), functions_first))


def _rank(value: object, functions_first: bool) -> int:
    if inspect.isclass(value):
        return 1
    return (0 if functions_first else 2) if inspect.isroutine(value) else 3


def is_large(value: type) -> bool:
    methods = [name for name, member in vars(value).items() if callable(member) and not name.startswith("_")]
    return len(methods) > METHODS_ON_A_MODULE_PAGE_MAX


def heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n"


def directive(module: str, name: str, value: object) -> str:
    """Return the directive with which Sphinx describes a name."""
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        ours = [base for base in value.__bases__ if base.__module__.startswith("stratalog")]
        inherits = any(kind == "autoexception" or has_own_methods(base) for base in ours)
        options = ["members", "undoc-members", *(["show-inheritance"] if inherits else [])]
        return f".. {kind}:: {module}.{name}\n" + "".join(f"   :{option}:\n" for option in options)
    if inspect.isroutine(value):
        return f".. autofunction:: {module}.{name}\n"
    described = description_of(module, name)
    without_value = "   :no-value:\n"
    kind = "autodata"
    if get_origin(value) is Annotated:
        # Sphinx would print each of the many parameters of an annotation.
        kind, without_value = "py:data", ""
        plain = get_args(value)[0]
        described += f"\n\nThe type of a handler's parameter: ``{getattr(plain, '__name__', plain)}``."
    text = described.strip().replace("\n", "\n   ")
    return f".. {kind}:: {module}.{name}\n{without_value}" + (f"\n   {text}\n" if text else "")


def description_of(module: str, name: str) -> str:
    """Return the text below the assignment of a value, from the module that assigns it; empty without a text.

    Sphinx looks for this text only in the module that exports the value.
    """
    body = ast.parse(inspect.getsource(import_module(module)))
    for node in ast.walk(body):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module.startswith("stratalog"):
                    return description_of(node.module, alias.name)
    for node, text in zip(body.body, body.body[1:], strict=False):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(text, ast.Expr):
            return inspect.cleandoc(str(ast.literal_eval(text.value)))
    return ""


def limits_page() -> str:
    """Return a page with the names and values of all limits. Each comment in the source begins a new table."""
    limits = import_module("stratalog.limits")
    source = Path(str(limits.__file__)).read_text()
    lines = source.splitlines()
    answers = "[Limits](../../limits.md) describes the error at each limit."
    parts = [f"# stratalog.limits\n\n{_title(limits)} {answers}\n"]
    rows: list[list[str]] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and (comment := comment_above(lines, node.lineno)):
            parts += [table(["limit", "number"], rows), comment + "\n"]
            rows = []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if name.isupper():
                rows.append([code(name), number(getattr(limits, name))])
    return "\n".join([*parts, table(["limit", "number"], rows)])


def comment_above(lines: list[str], line: int) -> str:
    """Return the comment directly above a line. Lines are counted from 1."""
    matches: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.startswith("#"):
            break
        matches.insert(0, text.removeprefix("#").strip())
    return " ".join(matches)


def number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else code(str(value))
