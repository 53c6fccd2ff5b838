"""The command line, servers, workers and AWS Lambda functions read the same settings."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from stratalog import Event, LogSettings
from stratalog.aws.container import Container
from stratalog.cli import main
from stratalog.errors import Invalid
from stratalog.log.segments import list_segments
from stratalog.maintenance.store_pass import maintain
from stratalog.server import Application, Quotas
from stratalog.server.application import ServerLimits
from stratalog.settings import Settings, parse_settings, read_settings
from stratalog.store import open_store
from stratalog.worker import WorkerSettings
from tests.sources import ROOT

GIVEN = '{"log": {"snapshot_entries_interval": 5}, "server": {"threads": 3}, "worker": {"receives_max": 4}}'
EVERY_5 = '{"log": {"snapshot_entries_interval": 5}}'
EVERY_20 = '{"log": {"snapshot_entries_interval": 20}}'
APPLICATION = """
from stratalog import LogSettings
from stratalog.server import Application

app = Application(settings=LogSettings(snapshot_entries_interval=7, segment_entries_target=50))
"""


def test_given_settings_override_the_settings_of_the_application() -> None:
    settings = parse_settings(GIVEN)
    own = LogSettings(snapshot_entries_interval=7, segment_entries_target=50)
    assert settings.over("log", own) == LogSettings(snapshot_entries_interval=5, segment_entries_target=50)
    assert settings.over("server", ServerLimits()) == ServerLimits(threads=3)
    assert settings.over("worker", WorkerSettings()) == WorkerSettings(receives_max=4)
    assert Settings().over("log", own) == own


def test_settings_are_read_from_a_file_or_from_their_text(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(GIVEN)
    assert read_settings(str(tmp_path / "settings.json")) == read_settings(GIVEN) == parse_settings(GIVEN)
    assert read_settings("") == read_settings("{}") == Settings()
    with pytest.raises(Invalid, match="cannot be read"):
        read_settings(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"logs": {}}',
        '{"log": {"snapshot_interval": 5}}',
        '{"log": {"snapshot_entries_interval": 0}}',
        '{"log": {"snapshot_entries_interval": 2.5}}',
        '{"log": {"snapshot_entries_interval": "5"}}',
    ],
)
def test_an_unknown_or_invalid_setting_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_settings(text).over("log", LogSettings())


def test_aws_lambda_functions_use_the_settings(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    open_store(store).close()
    container = Container({"STRATALOG_STORE": store, "STRATALOG_SETTINGS": GIVEN})
    assert container.store.environment.settings.snapshot_entries_interval == 5
    assert container.application.limits.threads == 3
    assert (container.worker_settings.receives_max, container.worker_settings.retry_seconds_max) == (4, 5)
    container.store.close()


@pytest.mark.parametrize(
    ("arguments", "variable", "due"),
    [
        ([], "", 0),
        (["app:app"], "", 1),
        (["--settings", EVERY_5], "", 1),
        ([], EVERY_5, 1),
        (["app:app", "--settings", EVERY_20], "", 0),
        (["app:app"], EVERY_20, 0),
    ],
)
def test_maintenance_makes_the_snapshots_that_the_settings_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str, due: int
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRATALOG_SETTINGS", variable)
    with open_store(tmp_path / "data") as store:
        document = store.create("acme", "plan")
        for number in range(10):
            document.mutate("put", {"key": "n", "value": number})
    ran = CliRunner().invoke(main, ["maintain", *arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["snapshots"] == due


@pytest.mark.parametrize(("interval", "due"), [(5, 1), (20, 0)])
def test_a_program_maintains_by_the_settings_of_its_own_store(tmp_path: Path, interval: int, due: int) -> None:
    with open_store(tmp_path) as store:
        document = store.create("acme", "plan")
        for number in range(10):
            document.mutate("put", {"key": "n", "value": number})
    with open_store(tmp_path, settings=LogSettings(snapshot_entries_interval=interval)) as store:
        assert maintain(store).snapshots == due


@pytest.mark.parametrize(("target", "segments"), [(2, 3), (50, 1)])
def test_a_log_rolls_over_by_the_settings_of_its_own_store(target: int, segments: int) -> None:
    with open_store("memory:", settings=LogSettings(segment_entries_target=target)) as store:
        log = store.create_log("acme", "events")
        for number in range(6):
            log.append(Event("seen", number))
        assert len(list(list_segments(store.environment.index, log.record.prefix))) == segments


def test_an_application_that_includes_another_keeps_its_settings() -> None:
    settings = LogSettings(snapshot_entries_interval=5)
    assert Application(settings=settings).including(Application()).settings == settings


@pytest.mark.parametrize("kind", [LogSettings, ServerLimits, WorkerSettings, Quotas], ids=lambda kind: kind.__name__)
def test_the_guide_names_every_setting(kind: type[msgspec.Struct]) -> None:
    guide = (ROOT / "docs/guides/settings.md").read_text()
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in guide] == []
