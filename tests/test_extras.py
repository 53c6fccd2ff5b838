"""A program without an extra learns which extra to install. The server runs with the lowest Litestar that it allows."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import ROOT, environment, run

PYTHON_WITHOUT = """
import importlib, sys
for name in {missing!r}:
    sys.modules[name] = None
try:
    getattr(importlib.import_module({module!r}), {attribute!r})
except ModuleNotFoundError as exc:
    print(exc.name, exc)
"""


@pytest.mark.parametrize(
    ("module", "attribute", "missing", "extra"),
    [
        ("stratalog.client", "connect", "httpx", "client"),
        ("stratalog.client", "connect", "websockets", "client"),
        ("stratalog.server", "create_app", "litestar", "server"),
        ("stratalog.server", "WebTokens", "jwt", "server"),
        ("stratalog.server", "Pool", "anyio", "server"),
        ("stratalog.testing.faults", "FaultyIndex", "greenlet", "testing"),
        ("stratalog.testing.loopback_server", "serve_on_loopback", "uvicorn", "server"),
    ],
)
def test_an_import_without_its_extra_names_the_extra(
    module: str, attribute: str, missing: str, extra: str, tmp_path: Path
) -> None:
    program = PYTHON_WITHOUT.format(missing=[missing], module=module, attribute=attribute)
    printed = run([sys.executable, "-c", program], cwd=tmp_path, env=environment()).stdout
    assert printed.startswith(missing)
    assert f'pip install "stratalog[{extra}]"' in printed


def test_the_server_extra_needs_the_first_litestar_with_the_names_that_the_server_imports() -> None:
    """The newest name that the server imports is `litestar.di.NamedDependency`. Litestar 2.23 is the first with it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [lowest] = [found[1] for text in extras["server"] if (found := re.fullmatch(r"litestar>=([\d.]+)", text))]
    assert tuple(map(int, lowest.split("."))) >= (2, 23)
