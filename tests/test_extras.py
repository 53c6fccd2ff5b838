"""An import without its extra names the extra. Extras exclude library versions with faults that matter here."""

from __future__ import annotations

import pickle
import re
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import Invalid
from stratalog.extras import MissingExtra, needs_extra
from stratalog.homes import open_blobs
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


@pytest.mark.parametrize(
    ("open_url", "url", "backend", "extra"),
    [
        (stratalog.open, "aws://table", "aws_store", "aws"),
        (open_blobs, "s3://bucket/prefix", "aws_store", "aws"),
        (stratalog.open, "postgresql://host/database", "postgres", "postgres"),
    ],
)
def test_a_store_without_its_extra_names_the_extra(
    open_url: Callable[[str], object], url: str, backend: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"stratalog.backends.{backend}", None)
    with pytest.raises(Invalid, match=rf'pip install "stratalog\[{extra}\]"'):
        open_url(url)


def test_a_missing_extra_is_a_missing_module_too() -> None:
    with pytest.raises(ModuleNotFoundError) as failure, needs_extra("pages", "a page", "stratalog-sheet"):
        import_module("no_such_module")
    error = failure.value
    assert str(error) == (
        "a page needs the pages extra: pip install \"stratalog-sheet[pages]\" missing='no_such_module'"
    )
    assert isinstance(error, MissingExtra)
    for same in (error, error.copy(), pickle.loads(pickle.dumps(error))):
        assert (type(same), same.name, str(same)) == (MissingExtra, "no_such_module", str(error))


def test_the_server_extra_needs_the_first_litestar_with_the_names_that_the_server_imports() -> None:
    """The server imports `litestar.di.NamedDependency`, which Litestar 2.23 added."""
    assert lowest("litestar") >= (2, 23)


def test_the_server_extra_needs_the_first_anyio_that_loses_no_cancellation() -> None:
    """Before anyio 4.16 a task loses a `Task.cancel` in the iteration of the event loop in which a timeout expires.

    A server that ends cancels its watch of the heads, which mostly waits with a timeout.
    """
    assert lowest("anyio") >= (4, 16)


def test_the_postgres_extra_needs_the_first_psycopg_that_notices_a_silent_server() -> None:
    """Before psycopg 3.3 the binary package waits for a silent server forever, so a session cannot end itself.

    Before psycopg-pool 3.3 a pool has no `drain`, by which a store replaces its sessions after a failover.
    """
    assert lowest(r"psycopg\[binary,pool\]", "postgres") >= (3, 3)
    assert lowest("psycopg-pool", "postgres") >= (3, 3)


def lowest(library: str, extra: str = "server") -> tuple[int, ...]:
    """Return the lowest version of a library that an extra allows."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [version] = [
        matched[1] for text in extras[extra] if (matched := re.fullmatch(rf"{library}>=([\d.]+)(?:,<\d+)?", text))
    ]
    return tuple(map(int, version.split(".")))
