"""The import rules of docs/design.md#layers: import-linter's contracts, and rules that import-linter cannot express."""

from __future__ import annotations

import ast
import logging
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from scripts.website.python_reference import MODULES
from stratalog.testing.emulators import program
from tests.processes import environment, run
from tests.sources import LIBRARY, PACKAGES, PROGRAMS, ROOT, TESTS, files

SOURCE = LIBRARY

GROUND = {
    "arguments",
    "clock",
    "codec",
    "errors",
    "extras",
    "folders",
    "group_commit",
    "keys",
    "limits",
    "newest",
    "process_fork",
    "recent_reads",
    "retry",
    "settings",
    "struct_types",
    "urls",
}
GROUND_LIBRARIES = {"msgspec", "zstandard"}

# The packages that a package may import besides the ground floor and itself. "" means the package `stratalog` itself.
MAY_IMPORT = {
    "client": {"ports", "protocol", "sqlite_files"},
    "ports": set[str](),
    "sqlite_files": set[str](),
}
# The packages that may import a package, besides the package itself.
MAY_BE_IMPORTED_BY = {
    "backends": {"aws", "homes", "testing"},
    "sqlite_files": {"backends", "client", "homes"},
    "testing": set[str](),
}


def test_the_contracts_of_import_linter_hold() -> None:
    """import-linter runs in a separate process, since it disables the loggers of its process."""
    logger = logging.getLogger("stratalog.server")
    run([program("lint-imports"), "--no-cache"], cwd=ROOT)
    assert not logger.disabled


def test_the_design_lists_the_modules_that_applications_may_import() -> None:
    [sentence] = re.findall(
        r"\*\*Public modules\*\* are `stratalog`,(.*?)\.\s", (ROOT / "docs/design.md").read_text(), re.S
    )
    assert set(re.findall("`([^`]*)`", sentence)) == public_modules()


def test_the_python_reference_has_exactly_the_modules_that_applications_may_import() -> None:
    assert {name.removeprefix("stratalog.") for name in MODULES} - {"stratalog"} | {"limits"} == public_modules()


@pytest.mark.parametrize("module", sorted(GROUND))
def test_the_ground_floor_imports_only_itself_and_two_libraries(module: str) -> None:
    allowed = sys.stdlib_module_names | GROUND_LIBRARIES | {f"stratalog.{name}" for name in GROUND}
    assert {name for name in imports(SOURCE / f"{module}.py") if name.split(".")[0] not in allowed} <= allowed


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_its_allowed_packages(package: str) -> None:
    allowed = MAY_IMPORT[package] | GROUND | {package}
    reached = {target for source, target in arrows() if source == package}
    assert reached <= allowed


@pytest.mark.parametrize("package", sorted(MAY_BE_IMPORTED_BY))
def test_a_package_is_imported_only_by_its_allowed_importers(package: str) -> None:
    importers = {source for source, target in arrows() if target == package}
    assert importers <= MAY_BE_IMPORTED_BY[package] | {package}


@pytest.mark.parametrize("name", ["cli", "client", "server", "worker"])
def test_every_public_name_of_a_public_module_exists(name: str) -> None:
    module = import_module(f"stratalog.{name}")
    assert [public for public in module.__all__ if getattr(module, public, None) is None] == []


@pytest.mark.parametrize("name", ["stratalog", "stratalog.cli", "stratalog.client", "stratalog.server"])
def test_dir_lists_every_public_name_before_its_first_use(name: str) -> None:
    print_missing = f"import {name} as module; print(set(module.__all__) - set(dir(module)))"
    assert run([sys.executable, "-c", print_missing]).stdout.strip() == "set()"


def test_the_import_of_an_application_loads_neither_routes_nor_cryptography() -> None:
    code = (
        "import sys; from stratalog.server import Application; print({'jwt', 'stratalog.server.app'} & {*sys.modules})"
    )
    assert run([sys.executable, "-c", code], cwd=ROOT, env=environment()).stdout == "set()\n"


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {module_name(path): path for path in files(*PACKAGES, *PROGRAMS, *TESTS)}
    arrows = {name: set(module_imports(path, modules)) - {name} for name, path in modules.items()}
    assert len([*TopologicalSorter(arrows).static_order()]) == len(modules)  # raises CycleError, which names the cycle


def test_only_the_command_line_and_testing_import_the_top_level_package() -> None:
    importers = {source for source, target in arrows() if target == ""}
    assert importers <= {"__main__", "cli", "testing"}


def public_modules() -> set[str]:
    """Return the modules and packages of the library, without `stratalog` itself, that applications may import."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [protected] = [contract["protected_modules"] for contract in contracts if contract["id"] == "applications"]
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    return {name for name in modules if f"stratalog.{name}" not in protected} - {"__init__", "__main__"}


@cache
def arrows() -> Sequence[tuple[str, str]]:
    """Return (importing package, imported package) for every import in the library. "" means `stratalog` itself."""
    return list(_arrows())


def _arrows() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.relative_to(SOURCE).with_suffix("").parts[0]
        if source == "__init__":
            continue
        for name in imports(path):
            first, _, rest = name.partition(".")
            if first == "stratalog":
                yield source, rest.split(".")[0]


def module_name(path: Path) -> str:
    """Return the full name of a module, as imports use it."""
    root = next((package.parent for package in PACKAGES if path.is_relative_to(package)), ROOT)
    below = path.relative_to(root).with_suffix("")
    return ".".join(part for part in below.parts if part != "__init__")


def module_imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the ``modules`` that a file imports, also inside functions. Leave out imports for type checking only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in modules)
            if node.module in modules and not all(name in modules for name in names):
                yield node.module


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of the modules that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, path)
            if base == "stratalog":
                yield from (f"{base}.{alias.name}" if _is_module(alias.name) else base for alias in node.names)
            else:
                yield base


def _base(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = ["stratalog", *path.relative_to(SOURCE).parts[:-1]]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _is_module(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()
