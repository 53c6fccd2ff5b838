"""The format of queue messages is fixed. Later workers still apply the messages that a server of this format queued."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog.codec import decompress
from stratalog.documents import Document
from stratalog.errors import Corrupt, Unsupported
from stratalog.limits import QUEUED_BYTES_MAX
from stratalog.ports.index import Item, Put
from stratalog.protocol import Mutation
from stratalog.protocol.readable import from_plain
from stratalog.protocol.sync import Push
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from stratalog.worker import messages
from stratalog.worker.attempt_record import AttemptRecord, read_attempts, write_attempts

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/queue-v1.json").read_text())
MESSAGES = [b64decode(text) for text in GOLDEN["messages"]]
PUSH = msgspec.convert(from_plain(list(GOLDEN["push"].values())), messages.QueuedPush)
SENT = Push(
    "g",
    [
        Mutation(client="c1", id=1, name="put", args={"key": "title", "value": b"\x00\xff"}),
        Mutation(client="c1", id=2, name="put", args={"key": "k", "value": "\ud800"}),
        Mutation(client="c2", id=7, name="inc", args={"key": "n", "by": 0.5}),
    ],
    GOLDEN["incarnation"],
)


def golden_store() -> tuple[Store, Document]:
    """Return the store and the document of the golden messages, as they were before the first message."""
    store = open_store("memory:", clock=ManualClock())
    return store, store.create("acme & co", "plan/é")


@pytest.mark.parametrize("message", MESSAGES)
def test_a_golden_message_is_still_decoded_to_the_same_push(message: bytes) -> None:
    store, document = golden_store()
    for key, body in GOLDEN["blobs"].items():
        store.environment.blobs.put(key, b64decode(body))
    envelope = messages.read_message(message)
    assert (envelope.organisation, envelope.document) == (document.organisation, document.name)
    assert envelope.incarnation == document.log.record.incarnation == GOLDEN["incarnation"]
    assert messages.open_push(store.environment.blobs, envelope) == PUSH


def test_the_golden_push_is_still_encoded_as_the_golden_messages() -> None:
    store, document = golden_store()
    assert messages.group_of(document.log.record) == GOLDEN["group"]
    inline = messages.write_message(store.environment, document.log.record, SENT, "u-ada", "Ada")
    claimed = messages.write_message(store.environment, document.log.record, SENT, "u-ada", "Ada", 1)
    assert list(map(opened, (inline, claimed))) == list(map(opened, MESSAGES))
    blobs = store.environment.blobs
    assert {stat.key: blobs.get(stat.key) for stat in blobs.list("")} == {
        key: b64decode(body) for key, body in GOLDEN["blobs"].items()
    }


def test_the_names_of_the_sender_s_mutators_are_after_all_fields_that_an_older_worker_reads() -> None:
    store, document = golden_store()
    record = document.log.record
    plain, named = (
        messages.write_message(store.environment, record, SENT, "u-ada", "Ada", known=known)
        for known in ((), {"put", "inc", "other"})
    )
    older, newer = (msgspec.msgpack.decode(opened(message)[1]) for message in (plain, named))
    assert newer == [*older, ["inc", "put"]]
    assert messages.open_push(store.environment.blobs, messages.read_message(named)).known == ("inc", "put")


def opened(message: bytes) -> tuple[messages.Envelope, bytes]:
    """Return a message's envelope without its push, and the decompressed push, which is empty if a blob has the push.

    The compressed bytes may differ.
    """
    envelope = messages.read_message(message)
    push = decompress(envelope.inline, QUEUED_BYTES_MAX) if envelope.inline else b""
    return msgspec.structs.replace(envelope, inline=b""), push


def test_a_golden_attempt_record_is_still_decoded_and_encoded_unchanged() -> None:
    store, _ = golden_store()
    stored = Item(**GOLDEN["attempt record"])
    store.environment.index.commit([Put(stored)])
    record = read_attempts(store.environment.index, stored.sort)
    assert record == AttemptRecord("RuntimeError: a fault", 1_700_000_000_000, "c1", 2, 1, 5, 0)
    write_attempts(store.environment.index, stored.sort, record)
    assert store.environment.index.get(stored.partition, stored.sort) == stored


def test_a_message_of_a_newer_format_is_unsupported_and_a_malformed_message_is_corrupt() -> None:
    with pytest.raises(Unsupported):
        messages.read_message(b"\x02" + MESSAGES[0][1:])
    for broken in (b"", b"\x01", b"\x01\x90", MESSAGES[0][:-1]):
        with pytest.raises(Corrupt):
            messages.read_message(broken)
