"""Clients converge although some events of the functions arrive twice, fail in part, or time out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from stratalog.client import Client, HttpTransport
from tests.aws.deployed import ORGANISATION, Deployed, Mishaps, ThroughGateway
from tests.client import convergence
from tests.client.session import Session

RATE = 0.2
WORK_RATE = 0.6
LARGE_BYTES = 15 * 1024 * 1024


@contextmanager
def session_through(deployed: Deployed, folder: Path, clients: int, seed: int) -> Iterator[Session]:
    """Run clients of a new document behind the gateway."""
    deployed.store.create(ORGANISATION, "plan")
    ways = [ThroughGateway(deployed, "plan", random.Random(seed + who)) for who in range(clients)]
    try:
        yield Session(folder, ways, lambda: deployed.store.document(ORGANISATION, "plan"), seed)
    finally:
        for way in ways:
            way.hang_up()


@pytest.mark.parametrize("seed", range(2))
def test_clients_behind_failing_functions_converge(seed: int, deployed: Deployed, tmp_path: Path) -> None:
    deployed.serve()
    deployed.mishaps["api"] = Mishaps(seed, RATE)
    with session_through(deployed, tmp_path, 2, seed) as session:
        met = convergence._run(session, random.Random(seed))
    assert met["rejections"] >= 1
    assert deployed.api.kills > 0
    assert deployed.processor.calls == 0


@pytest.mark.parametrize("seed", range(2))
def test_clients_behind_the_queue_and_failing_functions_converge(seed: int, deployed: Deployed, tmp_path: Path) -> None:
    deployed.serve(STRATALOG_QUEUED="all")
    deployed.mishaps |= {"api": Mishaps(seed, RATE), "processor": Mishaps(seed, WORK_RATE)}
    with session_through(deployed, tmp_path, 2, seed) as session:
        met = convergence._run(session, random.Random(seed))
    assert met["rejections"] >= 1
    assert deployed.processor.kills > 0
    assert deployed.source.counts["deleted"] > 0
    assert deployed.source.counts["delivered again"] > 0
    assert list(deployed.store.queue.dead_letters()) == []


def ordinary(chance: random.Random, rows: int) -> list[dict[str, Any]]:
    """Return rows like those of an application, about 130 bytes each."""
    words = ["".join(chance.choices(ascii_lowercase, k=chance.randint(2, 10))) for _ in range(3000)]
    return [
        {
            "id": position,
            "title": " ".join(chance.choices(words, k=8)),
            "done": position % 3 == 0,
            "by": chance.choice(words),
        }
        for position in range(rows)
    ]


def test_a_new_client_pulls_a_document_of_15_mib_through_a_function(deployed: Deployed) -> None:
    deployed.serve()
    document = deployed.store.create(ORGANISATION, "plan")
    chance, size = random.Random(0), 0
    while size < LARGE_BYTES:
        rows = ordinary(chance, 8000)
        document.mutate("put", {"key": f"tables/{size}", "value": rows})
        size += len(json.dumps(rows))
    with Client(HttpTransport(deployed.document_url("plan"))) as client:
        client.sync()
        assert dict(client.scan("tables/")) == dict(document.scan("tables/"))
