"""The benchmark program reports every figure. These tests assert no speed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from bench import appends, peers, postgres, table, tails
from bench.__main__ import MEASURES, main
from bench.figures import FIGURES, Figure, Measured, Result, evaluate, problems
from bench.media import Medium, opened_media
from bench.program import measure_on
from bench.report import legend
from bench.workplace import ORGANISATION, QUICK, Workplace
from stratalog.errors import Unavailable
from stratalog.store import open_store
from stratalog.testing.postgres_server import PostgresServer

NAMES = [figure.name for figure in FIGURES]
_numbers = count()


@pytest.fixture(scope="module")
def media() -> Iterator[Sequence[Medium]]:
    """The media that all figures share, with the large stores and the measurements that several figures need."""
    with opened_media(QUICK) as media:
        yield media


@pytest.fixture
def shared_server(postgres_process: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each benchmark of PostgreSQL a new database of the tests' server, since a new server takes a second."""
    monkeypatch.setattr(postgres, "postgres_server", lambda: new_database(postgres_process))


@contextmanager
def new_database(server: PostgresServer) -> Iterator[SimpleNamespace]:
    import psycopg

    name = f"bench_{next(_numbers)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield SimpleNamespace(
        url=server.url.replace("/postgres?", f"/{name}?"), environment=server.environment | {"PGDATABASE": name}
    )


def test_every_figure_has_a_unique_name_and_a_function() -> None:
    assert sorted(NAMES) == sorted(set(NAMES)) == sorted(MEASURES)


def test_a_figure_without_a_goal_has_a_reason() -> None:
    assert [figure.name for figure in FIGURES if figure.goal is None and not figure.reason] == []


def test_a_missing_row_is_a_problem() -> None:
    rows = [row(name) for name in NAMES]
    assert problems(rows, NAMES) == []
    assert problems(rows[1:], NAMES) == [f"no row: {NAMES[0]}"]


@pytest.mark.parametrize("column", ["value", "reference", "ratio", "goal", "meets"])
def test_an_empty_column_without_a_reason_is_a_problem(column: str) -> None:
    empty = msgspec.structs.replace(row("append"), **{column: None})
    assert problems([empty], ["append"]) == [f"empty without a reason: append, {column}"]
    assert problems([msgspec.structs.replace(empty, reason="told")], ["append"]) == []


@pytest.mark.parametrize(
    ("better", "goal_bounds", "value", "meets"),
    [
        ("more", "ratio", 5.0, True),
        ("more", "ratio", 4.9, False),
        ("less", "ratio", 5.0, True),
        ("less", "ratio", 5.1, False),
        ("less", "value", 0.5, True),
        ("less", "value", 0.6, False),
    ],
)
def test_a_figure_meets_its_goal_as_a_minimum_or_a_maximum(
    better: str, goal_bounds: str, value: float, meets: bool
) -> None:
    figure = msgspec.convert(
        {"name": "n", "what": "", "unit": "ms", "goal": 0.5} | {"better": better, "goal_bounds": goal_bounds}, Figure
    )
    assert evaluate(figure, Measured(value, 10.0)).meets is meets


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=NAMES)
def test_every_figure_can_be_measured(figure: Figure, media: Sequence[Medium], request: pytest.FixtureRequest) -> None:
    if figure.name in postgres.MEASURES and not figure.name.startswith("postgres-standby"):
        request.getfixturevalue("shared_server")
    assert problems(measure_on(media, [figure], MEASURES), [figure.name]) == []


def test_each_mutation_of_the_benchmark_changes_a_value(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        appends.mutated(Workplace(tmp_path, QUICK), store, SimpleNamespace(append_each=len))
        versions = list(store.document(ORGANISATION, "document").versions())
    assert len(versions) == QUICK.commits * (QUICK.rounds + 1)
    assert [version.version for version in versions if not version.changed] == []


def test_each_mutation_of_the_tails_changes_a_value(tmp_path: Path) -> None:
    work = Workplace(tmp_path, QUICK)
    tails.MEASURES["mutate-p50"](work)
    with open_store(work.document(tails.SMALL_KEYS)) as store:
        versions = list(store.document(ORGANISATION, "document").versions(1))
    assert len(versions) == QUICK.tail_commits * 11 // 10
    assert [version.version for version in versions if not version.changed] == []


def test_the_program_prints_a_row_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    assert main(["--quick", "--only", "load-snapshot", "--json", str(path)]) == 0
    (written,) = json.loads(path.read_text())
    assert written["name"] == "load-snapshot"
    row_of_a_disk = {"medium", "above_us"}
    assert set(written) == {"name", "value", "unit", "reference", "ratio", "goal", "meets", "reason"} | row_of_a_disk
    printed = capsys.readouterr().out
    assert "load-snapshot  " in printed
    assert "the state of `load` from its snapshot" in printed


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_every_library_does_the_work_of_the_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "peers.json"
    assert peers.main(["--quick", "--json", str(path)]) == 0
    rows = [(row["work"], row["side"]) for row in json.loads(path.read_text())]
    sides = {work: {side for named, side in rows if named == work} for work in peers.WORK}
    assert len(rows) == sum(map(len, sides.values()))
    assert {"Stratalog, SQLite", "eventsourcing, SQLite"} <= sides["append"]
    assert all(sides[work] == sides["append"] for work in [*peers.APPENDS, *peers.READS])
    assert all(sides[work] == sides["update-1"] for work in peers.UPDATES)
    # The tree of prollytree alone cannot compare versions.
    assert sides["diff-10"] == {side for side in sides["update-1"] if "tree only" not in side}
    printed = capsys.readouterr().out
    assert "| append, events/s |" in printed
    assert "| diff-10, ms |" in printed


def test_a_case_whose_commits_all_fail_has_no_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise Unavailable("simulated")

    case = table.Case("hosted", 2, files=2)
    name, side = next(iter(table.SIDES.items()))
    measured = table._row(name, case, [table.Share([], 0, 0, 1)], None)
    monkeypatch.setattr(table, "_commit", fail)
    costed = table.costed(measured, name, case, 10, side.tunings[0])
    assert (costed.failed, costed.requests, costed.dollars_per_million) == (3, None, None)
    assert next(iter(table.table([costed])))


def test_the_report_says_what_each_figure_measures() -> None:
    lines = legend([row(name) for name in NAMES]).splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [[figure.name, figure.what] for figure in FIGURES]


def row(name: str) -> Result:
    return Result(name=name, value=1.0, unit="ms", reference=1.0, ratio=1.0, goal=1.0, meets=True)


def test_a_terminated_run_deletes_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "append", lambda work: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        main(["--only", "append", "--quick", "--folder", str(tmp_path)])
    assert (ended.value.code, list(tmp_path.iterdir())) == (128 + signal.SIGTERM, [])
