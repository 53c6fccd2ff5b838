"""The catalogue's commands, from adding a source to comparing versions."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from click.testing import CliRunner

import stratalog
from apps.catalogue.tests.helpers import PACKAGE
from stratalog.cli import main
from stratalog.keys import dead_letters_partition, id_sort
from stratalog.testing.clock import ManualClock
from stratalog_catalogue import polls as catalogue_polls
from stratalog_catalogue.names import SETTINGS
from tests.processes import COMMAND_LINE, start

SECONDS_MAX = 120


class Shell:
    """A runner of commands on its own store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0

    def __call__(self, *words: str) -> list[Any]:
        store = str(self.folder / "store")
        done = CliRunner().invoke(main, ["catalogue", *words, "--json", "--store", store])
        self.code = done.exit_code
        return [json.loads(line) for line in done.stdout.splitlines()]

    def raw(self, *words: str) -> bytes:
        done = CliRunner().invoke(main, ["catalogue", *words, "--store", str(self.folder / "store")])
        self.code = done.exit_code
        return done.stdout_bytes

    def errors(self, *words: str) -> str:
        """Return the text of the error stream."""
        return CliRunner().invoke(main, ["catalogue", *words, "--store", str(self.folder / "store")]).stderr

    def text(self, *words: str) -> str:
        done = CliRunner().invoke(main, ["catalogue", *words, "--store", str(self.folder / "store")])
        self.code = done.exit_code
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Packages").write_text(PACKAGE.format(name="bash", version="1"))
    made(
        "add", "acme/debian", str(tmp_path / "in"), "--format", "rfc822", "--transformer", "debian-package",
        "--id", "Package,Architecture",
    )  # fmt: skip
    return made


@pytest.mark.parametrize("option", ["--due", "--deletions"])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_source_with_a_number_that_is_not_finite_is_refused(shell: Shell, option: str, number: str) -> None:
    before = shell("sources", "acme")
    shell("add", "acme/debian", str(shell.folder / "in"), "--format", "rfc822", f"{option}={number}")
    assert shell.code == 2
    assert shell("sources", "acme") == before


def test_a_source_without_a_location_is_refused(shell: Shell) -> None:
    shell("add", "acme/other", "", "--format", "csv")
    assert shell.code == 2
    assert [source["name"] for source in shell("sources", "acme")] == ["debian"]


def test_a_source_whose_settings_cannot_be_read_is_named_and_other_sources_get_their_works(shell: Shell) -> None:
    with stratalog.open(str(shell.folder / "store")) as store:
        store.records("acme").put(SETTINGS + "broken", b'{"version":2}')
    polled, other, scanned = shell("poll", "acme")
    assert (polled["source"], polled["reason"] != "", other["taken"]["new"], scanned["made"]) == ("broken", True, 1, 1)
    assert shell.code == 1
    assert [source["name"] for source in shell("sources", "acme")] == ["debian"]
    assert shell.code == 1
    shell("remove", "acme/debian")
    assert (shell("sources", "acme"), shell.code) == ([], 1)
    (polled, scanned) = shell("poll", "acme")
    assert (polled["source"], scanned["looked_at"], shell.code) == ("broken", 0, 1)


def test_the_commands_work_from_a_poll_to_a_comparison_of_versions(shell: Shell) -> None:
    polled, scanned = shell("poll", "acme")
    assert (shell.code, polled["taken"]["new"], scanned["made"]) == (0, 1, 1)
    newer = shell.folder / "Packages.new"
    newer.write_text(PACKAGE.format(name="bash", version="2"))
    assert shell("ingest", "acme/debian", str(newer))[0]["new"] == 1
    assert shell("reprocess", "acme")[0]["made"] == 1
    assert shell("reprocess", "acme", "--changed")[0]["made"] == 0
    assert [version["version"] for version in shell("versions", "acme/debian", "bash/amd64")] == [2, 1]
    assert "+Version: 2" in shell("diff", "acme/debian", "bash/amd64", "1", "2")[0]["lines"]
    assert shell("search", "acme", "bash")[0]["id"] == "bash/amd64"
    assert shell("stats", "acme")[0]["sources"][0]["rows"][0]["versions"] == 2
    assert shell("dead-letters", "acme") == []
    assert shell.code == 0


def test_a_dry_run_stores_no_record(shell: Shell) -> None:
    file = str(shell.folder / "in" / "Packages")
    for _ in range(2):
        (polled,) = shell("poll", "acme", "--dry-run")
        assert (shell.code, polled["dry_run"], polled["taken"]["new"]) == (0, True, 1)
        assert shell("ingest", "acme/debian", file, "--dry-run")[0]["new"] == 1
    assert "1 new, 0 unchanged, 0 deleted, 0 failed (dry run)" in shell.text("poll", "acme", "--dry-run")
    shell("poll", "acme", "--dry-run", "--every", "60")
    assert shell.code == 2
    assert shell("poll", "acme")[0]["taken"]["new"] == 1


def test_commands_without_json_print_sentences_and_tables(shell: Shell) -> None:
    assert "1 read, 1 new" in shell.text("poll", "acme")
    assert "debian  rfc822  package" in shell.text("stats", "acme")
    assert "bash: the bash program" in shell.text("search", "acme", "--begins", "ba")
    assert "source's time" in shell.text("versions", "acme/debian", "bash/amd64")
    assert "the same" in shell.text("diff", "acme/debian", "bash/amd64", "1", "1")


def test_damaged_dead_letters_are_named_and_the_others_are_listed_and_redriven(shell: Shell) -> None:
    for name in ("a", "b", "c"):
        (shell.folder / "in" / name).write_text("Package: x\n")
    shell("poll", "acme")
    damaged = [letter["id"] for letter in shell("dead-letters", "acme")][1]
    database = apsw.Connection(str(shell.folder / "store" / "index.sqlite"))
    where = (dead_letters_partition("acme"), id_sort(damaged))
    database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", where)
    assert database.changes() == 1
    database.close()
    assert [len(shell(command, "acme")) for command in ("dead-letters", "redrive")] == [2, 2]
    assert shell.errors("dead-letters", "acme").startswith("damaged: ")
    for command in ("dead-letters", "redrive"):
        assert damaged in shell.errors(command, "acme")
        shell(command, "acme")
        assert shell.code == 6


def test_the_exit_code_reports_a_failure_until_its_dead_letter_is_redriven(shell: Shell) -> None:
    (shell.folder / "in" / "more").write_text("Package: x\n")
    shell("poll", "acme")
    assert shell.code == 1
    (letter,) = shell("dead-letters", "acme")
    assert "no id" in letter["reason"]
    assert [result["resolved"] for result in shell("redrive", "acme")] == [False]
    assert shell.code == 1
    shell("add", "acme/debian", str(shell.folder / "in"), "--format", "rfc822", "--id", "Package")
    assert [result["resolved"] for result in shell("redrive", "acme")] == [True]
    assert shell.code == 0


def test_stats_report_that_more_dead_letters_exist_than_are_counted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell.folder / "in" / "bad").write_text("Package: x\n\nPackage: y\n")
    shell("poll", "acme")
    monkeypatch.setattr("stratalog_catalogue.summary.CATALOGUE_LETTERS_COUNTED_MAX", 1)
    (stats,) = shell("stats", "acme")
    assert (stats["dead_letters"], stats["more_dead_letters"]) == ({"debian": 1}, True)


def test_stats_of_a_scan_that_found_no_record_say_so_and_ask_for_no_poll(shell: Shell) -> None:
    assert "no scan yet" in shell.errors("stats", "acme")
    (shell.folder / "in" / "Packages").write_text("Package: x\n")
    assert "to see why records failed: stratalog catalogue dead-letters acme" in shell.errors("poll", "acme")
    stats = shell.errors("stats", "acme")
    assert "the last scan found no records" in stats
    assert "no scan yet" not in stats


def test_a_poll_without_sources_says_so_and_a_failed_one_that_it_deletes_nothing(shell: Shell) -> None:
    assert shell.errors("poll", "nobody") == "no source to poll\n"
    (shell.folder / "other").write_text("Package: x\n")
    (shell.folder / "in" / "out").symlink_to(shell.folder / "other")
    assert "a complete state of which a part failed deletes no record" in shell.errors("poll", "acme")


def test_an_invalid_or_unknown_source_is_refused(shell: Shell) -> None:
    shell("add", "acme/Bad Name", ".", "--format", "json")
    assert shell.code == 2
    shell("add", "acme/a", ".", "--format", "json", "--transformer", "none")
    assert shell.code == 2
    shell("poll", "acme", "--source", "unknown")
    assert shell.code == 3


class ForwardingClock(ManualClock):
    """A clock that calls the next function of a list in each sleep.

    If the list is empty, the clock interrupts the program.
    """

    def __init__(self, happenings: list[Callable[[], object]]) -> None:
        super().__init__()
        self.slept: list[float] = []
        self._happenings = happenings

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept.append(seconds)
        if not self._happenings:
            raise KeyboardInterrupt
        self._happenings.pop(0)()


def test_a_repeated_poll_reads_each_source_when_it_is_due(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def another() -> None:
        (shell.folder / "in" / "more").write_text(PACKAGE.format(name="zsh", version="1"))

    shell("add", "acme/debian", str(shell.folder / "in"), "--format", "rfc822", "--id", "Package", "--due", "100")
    clock = ForwardingClock([another, lambda: None])
    monkeypatch.setattr("stratalog.store.SystemClock", lambda: clock)
    first, works, second, more = shell("poll", "acme", "--every", "60")
    assert clock.slept == [60, 60, 60]
    assert [(polled["taken"]["read"], polled["taken"]["new"]) for polled in (first, second)] == [(1, 1), (1, 1)]
    assert (works["made"], more["made"]) == (1, 1)


def test_a_repeated_poll_survives_an_unavailable_source(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    away, there = shell.folder / "away", shell.folder / "in"
    there.rename(away)
    clock = ForwardingClock([lambda: None] * 3 + [lambda: away.rename(there)])
    monkeypatch.setattr("stratalog.store.SystemClock", lambda: clock)
    first, works, second, more = shell("poll", "acme", "--every", "60")
    assert ("does not exist" in first["reason"], works["made"]) == (True, 0)
    assert (second["reason"], second["taken"]["new"], more["made"]) == ("", 1, 1)
    assert clock.slept[3:] == [60, 60]


def test_a_repeated_poll_survives_an_unavailable_store(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    outages, poll = [stratalog.Unavailable("down")], catalogue_polls.poll

    def down(*arguments: Any, **options: Any) -> Any:
        if outages:
            raise outages.pop()
        return poll(*arguments, **options)

    clock = ForwardingClock([lambda: None])
    monkeypatch.setattr("stratalog.store.SystemClock", lambda: clock)
    monkeypatch.setattr(catalogue_polls, "poll", down)
    polled, _ = shell("poll", "acme", "--every", "60")
    assert (polled["taken"]["new"], clock.slept) == (1, [60, 60])


def test_a_catalogue_is_served_until_a_signal(shell: Shell) -> None:
    shell("poll", "acme")
    words = ["catalogue", "serve", "acme", "--port", "0", "--json", "--store", str(shell.folder / "store")]
    with start([*COMMAND_LINE, *words]) as process:
        url = httpx.URL(json.loads(process.read_line())["url"])
        assert (url.path, url.params["in"]) == ("/web/catalogue/", "acme")
        assert "<title>Catalogue" in httpx.get(url, timeout=SECONDS_MAX).text
        works = url.copy_with(path="/v1/organisations/acme/catalogue/works", query=None)
        assert [work["id"] for work in httpx.get(works, timeout=SECONDS_MAX).json()] == ["bash/amd64"]
        process.signal(signal.SIGTERM)
        process.end()


def test_a_source_whose_folder_is_not_utf_8_is_refused_and_not_added(shell: Shell) -> None:
    folder = shell.folder / "caf\udce9"
    folder.mkdir()
    shell("add", "acme/cafe", str(folder), "--format", "json", "--id", "id")
    assert shell.code == 2
    assert "cafe" not in shell.text("sources", "acme")


def test_a_migration_without_a_region_of_aws_is_refused(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    shell("migrate", "acme/debian", "old-table")
    assert shell.code == 2


@pytest.mark.parametrize(
    "pattern", ["", "/abs/*", "**/" * 2000, "*/" * 50 + "*"], ids=["empty", "absolute", "long", "limit"]
)
def test_a_source_whose_pattern_every_poll_would_refuse_is_refused(shell: Shell, pattern: str) -> None:
    (error,) = shell("add", "acme/books", str(shell.folder), "--format", "json", "--pattern", pattern) or [None]
    assert (shell.code, error) == (2, None)
    assert [line["name"] for line in shell("sources", "acme")] == ["debian"]


@pytest.mark.parametrize("seconds", ["1e300", "9223372036854775808"])
def test_an_interval_that_the_system_cannot_wait_is_refused(shell: Shell, seconds: str) -> None:
    shell("poll", "acme", "--every", seconds)
    assert shell.code == 2


@pytest.mark.parametrize("command", ["letter", "dismiss"])
def test_a_command_on_an_unknown_dead_letter_says_that_it_is_not_found(shell: Shell, command: str) -> None:
    shell(command, "acme", "source/debian/none")
    assert shell.code == 3
    assert "dead letter not found" in shell.errors(command, "acme", "source/debian/none")


def test_a_poll_says_that_a_record_was_not_stored_because_another_has_its_id(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "in" / "Packages").write_text("\n".join(PACKAGE.format(name="bash", version=n) for n in "12"))
    assert "1 not stored: another record has the id and time" in shell.text("poll", "acme", "--no-works")
    assert "not stored" not in shell.text("poll", "acme", "--no-works")
