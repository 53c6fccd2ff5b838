"""The program finds commands and applications of other distributions by entry points. pip installs an example."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from stratalog.cli import main
from stratalog.errors import Invalid
from stratalog.server import Application, find_application
from tests.processes import COMMAND_LINE, ROOT, environment, run
from tests.server.api import serving

GUESTBOOK = ROOT / "examples" / "guestbook"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the guest book, as a user would install it."""
    folder = tmp_path_factory.mktemp("site")
    copied = folder / "source"
    copied.mkdir()
    for name in ("pyproject.toml", "guestbook.py"):
        (copied / name).write_bytes((GUESTBOOK / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run([*pip, "--target", str(folder), str(copied)])
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(site))
    return site


def plugin(folder: Path, name: str, group: str, target: str, source: str = "") -> None:
    """Write a module and the metadata of its distribution with one entry point, as an installer would."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{target}\n")
    (folder / f"{name}.py").write_text(source)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_an_installed_command_works_like_a_built_in_one(site: Path, tmp_path: Path) -> None:
    def stratalog(*arguments: str) -> str:
        return run([*COMMAND_LINE, *arguments], cwd=tmp_path, env=environment(site)).stdout

    stratalog("init")
    stratalog("create", "acme/book")
    assert stratalog("guestbook", "sign", "acme/book", "bob") == "bob\n"
    assert json.loads(stratalog("guestbook", "sign", "acme/book", "ada", "--json"))["guests"] == ["ada", "bob"]
    assert "Sign a guest book." in stratalog("--help")


def test_an_installed_application_is_found_by_its_short_name(installed: Path, tmp_path: Path) -> None:
    application = find_application("guestbook", str(tmp_path))
    with serving(application) as client:
        client.put("/v1/organisations/acme/documents/book")
        assert client.get("/v1/organisations/acme/documents/book/guests").json() == []


@pytest.mark.parametrize("name", ["catalogue", "sheet", "table"])
def test_each_application_of_the_project_has_a_short_name(name: str) -> None:
    assert isinstance(find_application(name, "."), Application)


@pytest.mark.parametrize("old", ["stratalog.apps.sheet.http:app", "stratalog.apps.table.application:app"])
def test_the_error_of_an_old_path_lists_the_short_names(old: str) -> None:
    with pytest.raises(Invalid, match="installed applications: catalogue, sheet, table"):
        find_application(old, ".")


@pytest.mark.parametrize("name", ["no-such-application", "json", "json:dumps", "json:"])
def test_a_name_without_an_application_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="installed applications:"):
        find_application(name, ".")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('of its own')", "RuntimeError: of its own"),
        ("import sys; sys.exit('Node is missing here')", "SystemExit: Node is missing here"),
        ("command = 5", "broken_plugin:command is not a click command"),
    ],
)
def test_a_broken_command_is_shown_as_broken_and_another_command_works(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path, "broken_plugin", "stratalog.commands", "broken = broken_plugin:command", source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)
    shown = " ".join(called("--help").output.split())
    assert f"broken (broken) {reason[:20]}" in shown
    failed = called("broken", "something", "--of", "its", "own")
    assert failed.exit_code == 2
    assert f"'broken' of broken_plugin cannot be loaded: {reason}" in failed.output
    assert called("verify", "--help").exit_code == 0


@pytest.mark.parametrize("name", ["sheet", "table", "catalogue"])
def test_the_command_of_an_application_that_is_not_installed_names_its_distribution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.cli.plugins.entry_points", lambda **_: ())
    result = called(name, "list")
    assert (result.exit_code, f"pip install stratalog-{name}" in result.output) == (2, True)


def test_a_plugin_does_not_replace_a_built_in_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, "taking_over", "stratalog.commands", "init = taking_over:command", "raise SystemExit(9)")
    monkeypatch.syspath_prepend(str(tmp_path))
    built_in = main.get_command(click.Context(main), "init")
    assert built_in is main.commands["init"]
    assert main.list_commands(click.Context(main)).count("init") == 1


def test_no_plugin_is_loaded_for_a_built_in_command(tmp_path: Path) -> None:
    code = "import sys; from stratalog.cli import main\ntry: main(['init'])\nexcept SystemExit: pass\n"
    code += "print([name for name in sys.modules if name.startswith('stratalog_')])"
    assert run([sys.executable, "-c", code], cwd=tmp_path, env=environment()).stdout.endswith("[]\n")
