"""The server understands each message of the fixed wire format, and gives the same answers as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.protocol.readable import from_plain, to_plain
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from stratalog.sync.replicache import ReplicacheAnswer
from tests.documents.helpers import World
from tests.server.helpers import pull_replicache, push_replicache

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/sync-v1.json").read_text())


def plain(message: Any) -> Any:
    """Return a message as JSON values."""
    return msgspec.json.decode(msgspec.json.encode(to_plain(msgspec.to_builtins(message, builtin_types=(bytes,)))))


def native_push(document: Document, owner: str, body: Any) -> Any:
    return plain(push(document, msgspec.convert(from_plain(body), Push), owner))


def native_pull(document: Document, owner: str, body: Any) -> Any:
    return plain(pull(document, msgspec.convert(from_plain(body), Pull), owner))


def replicache(answer: ReplicacheAnswer) -> Any:
    return {"status": answer.status, "body": msgspec.json.decode(msgspec.json.encode(answer.body))}


CALLS: dict[str, Callable[[Document, str, Any], Any]] = {
    "push": native_push,
    "pull": native_pull,
    "replicache/push": lambda document, owner, body: replicache(push_replicache(document, body, owner)),
    "replicache/pull": lambda document, owner, body: replicache(pull_replicache(document, body, owner)),
    "collect": lambda document, owner, body: plain(document.collect_clients(**body).version),
}


def answered(document: Document, exchange: dict[str, Any]) -> Any:
    """Return the server's answer to one request of the golden file."""
    try:
        return CALLS[exchange["to"]](document, exchange["owner"], exchange["says"])
    except StratalogError as exc:
        return {"error": exc.code}


def test_the_server_still_gives_the_golden_answers() -> None:
    document = World().create("p_4567")
    assert document.log.record.origin == GOLDEN["origin"]
    for exchange in GOLDEN["exchange"]:
        assert answered(document, exchange) == exchange["answer"], exchange


@pytest.mark.parametrize(("to", "shape"), [("push", Pushed), ("pull", Pulled)])
def test_a_golden_answer_is_still_decoded(to: str, shape: type[Any]) -> None:
    answers = [
        exchange["answer"]
        for exchange in GOLDEN["exchange"]
        if exchange["to"] == to and "error" not in exchange["answer"]
    ]
    assert answers
    for answer in answers:
        assert plain(msgspec.convert(from_plain(answer), shape)) == answer


def test_the_golden_exchange_contains_each_status_and_patch_operation() -> None:
    text = json.dumps(GOLDEN)
    statuses = ["applied", "rejected", "seen", "gap", "mismatch", "unknown-client", "wrong-group", "collected"]
    words = ["put", "del", "clear", "ClientStateNotFound", "VersionNotSupported", "forbidden", "$bytes", "$$x"]
    assert [word for word in statuses + words if f'"{word}"' not in text] == []
