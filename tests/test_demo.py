"""The demo prints its results, and the printed commands work on its store. The sync demo serves its page."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from email.message import Message
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

import stratalog
from stratalog.cli import main
from tests.processes import ROOT, run, start

pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[1] / "examples" / "demo_core.py"
SYNC_DEMO = DEMO.with_name("demo_sync.py")
ON_AWS = (sys.executable, "-m", "stratalog.testing.aws_local")
ON_POSTGRESQL = (sys.executable, "-m", "stratalog.testing.postgres_local")


def run_demo(store: Path | str, *background: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*background, sys.executable, str(DEMO), str(store)]
    return run(command, expected=code)


@contextmanager
def sync_demo(store: Path | str, *background: str) -> Iterator[str]:
    """Run the sync demo, and yield the URL that it prints.

    SIGINT must end the demo with status 0. With a ``background`` command, SIGTERM must end the command with status 143.
    """
    command = [*background, sys.executable, str(SYNC_DEMO), str(store), "0"]
    with start(command) as process:
        printed = ""
        while "Ctrl+C stops" not in printed:
            printed += process.read_line()
        try:
            yield re.findall(r"Open (http://\S+) in two windows", printed)[0]
        finally:
            process.signal(signal.SIGTERM if background else signal.SIGINT)
            process.end(expected=None)
        assert process.status == (128 + signal.SIGTERM if background else 0), process.describe()


def test_a_sync_demo_continues_an_interrupted_import_and_keeps_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SYNC_DEMO.parent))
    demo = importlib.import_module("demo_sync")
    count = 2 * demo.BATCH + 1

    def movies(available: int) -> Iterator[tuple[str, dict[str, str]]]:
        yield from ((f"movies/{number:04}", {"Title": f"Film {number}"}) for number in range(available))
        if available < count:
            raise KeyboardInterrupt

    with stratalog.open("memory:") as store:
        for available in (0, demo.BATCH + 1, count):
            monkeypatch.setattr(demo, "movies", partial(movies, available))
            with nullcontext() if available == count else pytest.raises(KeyboardInterrupt):
                demo.fill(store)
        document = store.document(demo.ORGANISATION, demo.NAME)
        document.put("movies/0001", {"Title": "Mine"}, client="ada")
        document.delete("movies/0002", client="ada")
        demo.fill(store)
        assert len(list(document.at().list("movies/"))) == count - 1
        assert document["movies/0001"] == {"Title": "Mine"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "store"
    return folder, run_demo(folder).stdout


def test_the_demo_prints_its_results(shown: tuple[Path, str]) -> None:
    story = shown[1]
    titles = "9 are numbers (1776, 1941, 1408, …), 1 is null"
    for line in (
        "3,201 movies",
        titles,
        "rejected",
        "counted once",
        "142 in the document",
        "the log alone gives the state",
    ):
        assert line in story
    assert "\x1b" not in story


def test_the_commands_that_the_demo_prints_work(shown: tuple[Path, str]) -> None:
    printed = re.findall(r"^  \S*stratalog (--store .*)$", shown[1], re.MULTILINE)
    assert len(printed) == 8
    for command in printed:
        result = CliRunner().invoke(main, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert result.stdout


def test_a_second_run_of_the_demo_starts_over(shown: tuple[Path, str]) -> None:
    assert "starting over" in run_demo(shown[0]).stdout


def test_the_demo_changes_no_folder_that_the_demo_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    run_demo(tmp_path, code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_sync_demo_serves_the_page_and_the_movies(tmp_path: Path) -> None:
    with sync_demo(tmp_path / "store") as url:
        with urlopen(url) as page:
            scripts = re.findall(r'src="([^"]+)"', page.read().decode())
        for script in scripts:
            urlopen(urljoin(url, script)).close()
        with urlopen(urljoin(url, "/v1/organisations/demo/documents/movies/item?key=movies/0214")) as item:
            assert json.load(item)["value"]["Title"] == "Casablanca"


def test_a_second_run_of_the_sync_demo_reuses_its_store(tmp_path: Path) -> None:
    versions = []
    for _ in range(2):
        with (
            sync_demo(tmp_path / "store") as url,
            urlopen(urljoin(url, "/v1/organisations/demo/documents/movies")) as document,
        ):
            versions.append(json.load(document)["version"])
    assert versions == [8, 8]


def test_the_demo_prints_its_results_on_aws(shown: tuple[Path, str]) -> None:
    done = run_demo("aws://stratalog", *ON_AWS)
    assert "their data is deleted" in done.stderr
    for line in ("3,201 movies", "rejected", "counted once", "142 in the document", "the log alone gives the state"):
        assert line in done.stdout


def test_the_sync_demo_serves_from_aws_too() -> None:
    path = "/v1/organisations/demo/documents/movies/item?key=movies/0214"
    with sync_demo("aws://stratalog", *ON_AWS) as url, urlopen(urljoin(url, path)) as item:
        assert json.load(item)["value"]["Title"] == "Casablanca"


def test_the_sync_demo_serves_from_postgresql_too() -> None:
    path = "/v1/organisations/demo/documents/movies/item?key=movies/0214"
    with sync_demo("postgresql:///postgres", *ON_POSTGRESQL) as url, urlopen(urljoin(url, path)) as item:
        assert json.load(item)["value"]["Title"] == "Casablanca"


def test_the_makefile_gives_every_demo_its_store() -> None:
    """Each target starts the emulator that STORE names, and passes the store's URL to its demo.

    Without STORE, a target passes no URL. `make demo` may run any program in `examples`.
    """
    targets = re.findall(r"^(demo[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "demo-catalogue", "demo-core", "demo-sheet", "demo-sync"} <= {*targets}
    for target in targets:
        printed = dry_run(target, "STORE=aws-local")
        assert re.search(
            r"bootstrap dev\n.*-m stratalog.testing.aws_local \S+python examples/\w+\.py aws://stratalog$", printed
        )
        printed = dry_run(target, "STORE=postgresql-local")
        assert re.search(r"-m stratalog.testing.postgres_local \S+ examples/\w+\.py postgresql:///postgres$", printed)
        assert "bootstrap postgres" in printed
        assert re.search(r"bootstrap demo\n\s*\S+python examples/\w+\.py *$", dry_run(target))
        assert dry_run(target, "STORE=aws://mine").endswith(".py aws://mine")


def dry_run(*arguments: str) -> str:
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    return run(command, cwd=ROOT).stdout.strip()


class FailingColleague:
    """A colleague whose work fails with each of ``errors`` in turn."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def work(self, counts: bool) -> None:
        raise self.errors.pop(0)


@pytest.mark.parametrize(
    "deleted",
    [HTTPError("http://a", 404, "Not Found", Message(), None), ConnectionClosedError(Close(4404, ""), None)],
    ids=["write", "live connection"],
)
def test_a_simulated_colleague_of_a_deleted_sheet_stops(monkeypatch: pytest.MonkeyPatch, deleted: Exception) -> None:
    """After any other failure the colleague begins again."""
    monkeypatch.syspath_prepend(str(DEMO.parent))
    colleagues = importlib.import_module("colleagues")
    monkeypatch.setattr(colleagues, "answers", lambda url: True)
    monkeypatch.setattr(colleagues, "PAUSE_SECONDS", (0, 0))
    broken = ConnectionClosedError(Close(1012, ""), None)
    failing = FailingColleague([OSError("frozen"), broken, HTTPError("http://a", 503, "", Message(), None), deleted])
    colleagues.go_on(failing, "http://a", counts=True)
    assert failing.errors == []
