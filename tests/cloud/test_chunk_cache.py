"""A store on AWS loads several chunks at the same time, and caches chunks in a folder of the machine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import stratalog
from stratalog.aws.container import Container
from stratalog.cli import main
from stratalog.limits import CHUNK_GETS_MAX
from stratalog.ports.meter import Meter
from stratalog.protocol import Mutation

KEYS = 3000


@pytest.fixture
def url(aws_store: str) -> str:
    """The URL of a store whose document has many chunks."""
    with stratalog.open(aws_store) as store:
        document = store.create("acme", "plan")
        for first in range(0, KEYS, 1000):
            document.apply([_put(number) for number in range(first, first + 1000)])
        document.snapshot()
    return aws_store


def _put(number: int, value: int = 0) -> Mutation:
    return Mutation(client="filler", name="put", args={"key": f"items/{number:05}", "value": value})


def _gets(url: str, folder: Path | None) -> float:
    """Read and change the document in a new process; return the number of gets from S3."""
    meter = Meter()
    with stratalog.open(url, create=False, meter=meter, chunk_cache=folder) as store:
        assert store.environment.chunk_source.gets_max == CHUNK_GETS_MAX
        document = store.document("acme", "plan")
        assert len(list(document.scan("items/"))) == KEYS
        document.apply([_put(number, 1) for number in random.Random(1).sample(range(KEYS), 20)])
    return meter.read().get(("GetObject", "requests"), 0)


def test_the_second_process_of_a_machine_reads_no_chunk_from_s3(url: str, tmp_path: Path) -> None:
    without = _gets(url, None)
    assert _gets(url, tmp_path) == without > 30
    assert _gets(url, tmp_path) == 0


def test_a_command_and_a_function_use_the_folder_that_the_environment_names(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATALOG_CHUNK_CACHE", str(tmp_path / "command"))
    result = CliRunner().invoke(main, ["--store", url, "show", "acme/plan"])
    assert result.exit_code == 0, result.output
    container = Container({"STRATALOG_STORE": url, "STRATALOG_CHUNK_CACHE": str(tmp_path / "function")})
    with container.store as store:
        store.document("acme", "plan").get("items/00001")
    for program in ("command", "function"):
        assert [path for path in (tmp_path / program).rglob("*") if path.is_file()], program
