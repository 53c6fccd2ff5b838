"""While the server sends a body or a patch, one piece is in memory. The rest of the current part is in a file."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar.exceptions import LitestarException

from stratalog.documents.values import Values
from stratalog.errors import Corrupt, StratalogError, Unavailable
from stratalog.limits import BODY_PIECE_BYTES, PULL_START_BYTES_MAX
from stratalog.protocol.messages import Mutation
from stratalog.protocol.readable import restore
from stratalog.protocol.sync import Pull, Pulled
from stratalog.server import body_spool, ranges
from stratalog.server.application import Application, ServerLimits
from stratalog.server.body_spool import BodySpool
from stratalog.server.byte_budgets import ByteBudgets, RequestBytes
from stratalog.server.connection_shares import ConnectionBudgets
from stratalog.server.errors import Refused
from stratalog.server.patch_streams import stream_pull
from stratalog.server.security import Principal, StaticTokens
from stratalog.store import Store, open_store
from stratalog.sync.pull import open_pull, pull
from tests.server.api import BUDGET, Client, mutation, push, serving
from tests.server.helpers import pull_replicache

PIECE_BYTES = 1000
SLOT_BYTES = 5000
MESSAGE_PACK = "application/msgpack"


class Tracked(bytes):
    """Bytes whose class counts the instances in memory."""

    alive = 0

    def __init__(self, *_: Any) -> None:
        Tracked.alive += 1

    def __getitem__(self, key: Any) -> Any:
        return Tracked(super().__getitem__(key))

    def __del__(self) -> None:
        Tracked.alive -= 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_spool, "BODY_PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(body_spool, "BLOB_BYTES_MAX", SLOT_BYTES)


@pytest.fixture
def spool() -> Iterator[BodySpool]:
    spool = BodySpool()
    yield spool
    spool.close()


def request_bytes(**limits: int) -> RequestBytes:
    application = Application(limits=ServerLimits(**limits), authenticate=StaticTokens({}))
    scope: Any = {"client": None}
    with ConnectionBudgets(application.limits, is_shared=True).open(scope) as connection:
        connection.count_for_principal("ada")
    return RequestBytes(ByteBudgets(application), scope)


def asking(spool: BodySpool) -> Any:
    """Return an object that replaces a request, with the attributes that responses use."""
    scope = {"state": {"stratalog_bytes": request_bytes()}, "headers": []}
    return SimpleNamespace(
        scope=scope, app=SimpleNamespace(state=SimpleNamespace(service=SimpleNamespace(spool=spool)))
    )


@pytest.mark.usefixtures("small")
@given(st.lists(st.lists(st.integers(0, 12_500), max_size=4), max_size=4), st.randoms(use_true_random=False))
def test_concurrent_readers_each_receive_their_own_bytes(sizes: list[list[int]], random: Any) -> None:
    with closing(BodySpool()) as spool:
        bodies = [[bytes([65 + size % 26]) * size for size in of_reader] for of_reader in sizes]
        readers = {reader: spool.pieces(iter(parts), request_bytes()) for reader, parts in enumerate(bodies)}
        received = [b""] * len(bodies)
        while readers:
            reader = random.choice(sorted(readers))
            piece = next(readers[reader], None)
            if piece is None or random.random() < 0.02:
                readers.pop(reader).close()
                bodies[reader] = [received[reader]] if piece is not None else bodies[reader]
            else:
                assert len(piece) <= PIECE_BYTES
                received[reader] += piece
        assert received == [b"".join(parts) for parts in bodies]
        assert spool.slots_used == 0


@pytest.mark.usefixtures("small")
def test_the_file_is_empty_after_its_last_reader_has_closed(spool: BodySpool) -> None:
    readers = [spool.pieces(iter([b"x" * 12_000]), request_bytes()) for _ in range(3)]
    for reader in readers:
        next(reader)
    assert spool._file is not None
    assert (spool.slots_used, os.fstat(spool._file.fileno()).st_size) == (9, 9 * SLOT_BYTES - 3000)
    for reader in readers:
        reader.close()
    assert (spool.slots_used, os.fstat(spool._file.fileno()).st_size) == (0, 0)


def test_the_bytes_in_the_file_and_the_piece_in_memory_count_against_the_budgets(spool: BodySpool) -> None:
    taken = request_bytes()
    taken.cover_answer(10**6)
    pieces = spool.pieces(iter([b"x" * 400_000, b"y" * 300_000]), taken)
    for _ in range(7):
        assert len(next(pieces)) <= BODY_PIECE_BYTES
        assert (taken._budgets.files.used, taken._budgets.answers.used) == (400_000, BODY_PIECE_BYTES)
    assert next(pieces, None) is None
    refused = spool.pieces(iter([b"x" * 400_000]), request_bytes(file_bytes_of_principal_max=399_999))
    with pytest.raises(Refused, match="the principal has used its share of bytes of temporary files"):
        next(refused)
    assert spool.slots_used == 0


@pytest.mark.usefixtures("small")
def test_a_full_temporary_folder_is_507(spool: BodySpool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(Refused) as caught:
        next(spool.pieces(iter([b"x" * 4000]), request_bytes()))
    assert (caught.value.status, spool.slots_used) == (507, 0)


LARGE = bytes(range(256)) * 36_000
"""A body of two parts, together 9,216,000 bytes."""


def test_no_stored_part_of_a_body_is_in_memory_while_a_piece_is_sent(spool: BodySpool) -> None:
    with open_store("memory:") as store:
        records = store.records("acme")
        records.put("report", LARGE)
        get = store.environment.blobs.get
        store.environment.blobs.get = lambda key: Tracked(get(key))  # type: ignore[method-assign]
        request = asking(spool)
        parts = records.open("report")
        stream = ranges.answer_body(request, parts, len(LARGE), "", None, None, {}, immutable=False)
        received = b""
        for piece in stream.iterator:  # type: ignore[union-attr]
            gc.collect(0)
            assert Tracked.alive == 0
            received += piece  # type: ignore[operator]
    assert received == LARGE


def test_a_blob_sent_in_pieces_is_complete_and_frees_the_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_spool, "BODY_PIECE_BYTES", PIECE_BYTES)
    with serving() as client:
        client.put("/v1/organisations/acme/records/report", content=LARGE[:200_000])
        digest = client.get("/v1/organisations/acme/records/report/versions").json()["versions"][0]["digest"]
        path = f"/v1/organisations/acme/records/report/blobs/{digest}"
        assert client.get(path).content == LARGE[:200_000]
        assert client.get(path, headers={"Range": "bytes=1500-150000"}).content == LARGE[1500:150_001]
        service = client.app.state.service
        assert (service.spool.slots_used, service.byte_budgets.files.used) == (0, 0)


# Patches

VALUE_BYTES = 30_000
VALUES_READ = 16
"""The store fails after this number of large values.

The first piece has fewer large values, and `filled_store` has more.
"""

VALUES: list[Any] = [
    ["$" * VALUE_BYTES],
    {"$name": b"\x00\xff" * VALUE_BYTES},
    "é" * VALUE_BYTES,
    None,
    {"a": 1.5},
    "x",
]


def put(id: int, key: str, value: Any) -> Mutation:
    return Mutation(client="c", id=id, name="put", args={"key": key, "value": value})


def filled_store() -> Store:
    store = open_store("memory:")
    document = store.create("acme", "budget")
    values = (VALUES * 7)[:40]
    puts = [put(number, f"$k/{number:02}", value) for number, value in enumerate(values, 1)]
    document.apply(puts, group="g")
    document.apply([Mutation(client="c", id=41, name="del", args={"key": "$k/01"})], group="g")
    return store


def pulled(client: Client, kind: str, body: dict[str, Any]) -> Pulled:
    answer = client.post(f"{BUDGET}/pull", json=body, headers={"Accept": kind})
    assert answer.status_code == 200, answer.text
    assert ("content-length" in answer.headers) == (len(answer.content) < PULL_START_BYTES_MAX)
    if kind == MESSAGE_PACK:
        return msgspec.msgpack.decode(answer.content, type=Pulled)
    plain: Pulled = restore(msgspec.json.decode(answer.content, type=Pulled))
    return plain


@pytest.mark.parametrize("kind", ["application/json", MESSAGE_PACK])
def test_a_streamed_patch_equals_the_patch_of_a_direct_pull(kind: str) -> None:
    with filled_store() as store, serving(store=store) as client:
        document = store.document("acme", "budget")
        start = pull(document, Pull("g"))
        assert len(start.patch) == 40
        assert pulled(client, kind, {"group": "g"}) == start
        cookie = msgspec.to_builtins(start.cookie)
        assert pulled(client, kind, {"group": "g", "cookie": cookie}).patch == []
        puts = [put(42 + number, f"new/{number}", value) for number, value in enumerate(VALUES * 2)]
        document.apply(puts, group="g")
        news = pull(document, Pull("g", start.cookie))
        assert len(news.patch) == len(puts)
        assert pulled(client, kind, {"group": "g", "cookie": cookie}) == news


def test_replicaches_patch_is_streamed_too() -> None:
    body = {"pullVersion": 1, "clientGroupID": "g", "cookie": None}
    with filled_store() as store, serving(store=store) as client:
        expected = pull_replicache(store.document("acme", "budget"), body)
        answer = client.post(f"{BUDGET}/replicache/pull", json=body)
        assert "content-length" not in answer.headers
        assert answer.content == msgspec.json.encode(expected.body)


def test_a_streamed_patch_reads_values_only_as_they_are_sent(spool: BodySpool, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[bytes] = []
    load = Values.load

    def note(self: Values, stored: bytes) -> bytes:
        loads.append(stored)
        return load(self, stored)

    monkeypatch.setattr(Values, "load", note)
    with filled_store() as store:
        request = asking(spool)
        taken = request.scope["state"]["stratalog_bytes"]
        opened = open_pull(store.document("acme", "budget"), Pull("g"), start_bytes_max=VALUE_BYTES)
        assert len(loads) == len(opened.start.patch) - 1 <= 3
        fields = {"patch": opened.start.patch}
        stream: Any = stream_pull(request, opened, fields, "application/json", msgspec.json.encode)
        sent = 0
        for piece in stream.iterator:
            sent += len(piece)
            # Half of the values are small. The stream gathers them until a piece is full.
            assert len(loads) <= 6 + 2 * sent / VALUE_BYTES
            assert taken._budgets.answers.used <= BODY_PIECE_BYTES
        assert len(loads) == 39


@pytest.mark.parametrize(
    "error", [Unavailable("simulated"), Corrupt("simulated", key="k")], ids=lambda error_case: error_case.code
)
def test_a_store_error_truncates_a_streamed_patch_and_releases_its_budgets(error: StratalogError) -> None:
    """The server has sent the first piece, so the response cannot have the error's status.

    The server releases all budgets.
    """
    with filled_store() as store, serving(store=store) as client:
        blobs, reads = store.environment.blobs, list[str]()
        get = blobs.get

        def fail_later(key: str) -> bytes:
            reads.append(key)
            if len(reads) > VALUES_READ:
                raise error
            return get(key)

        blobs.get = fail_later  # type: ignore[method-assign]
        with pytest.raises(LitestarException, match="after response started"):
            client.post(f"{BUDGET}/pull", json={"group": "h"})
        assert len(reads) == VALUES_READ + 1
        service = client.app.state.service
        budgets = service.byte_budgets
        assert (budgets.answers.used, budgets.files.used, service.spool.slots_used) == (0, 0, 0)
        blobs.get = get  # type: ignore[method-assign]
        assert len(pulled(client, "application/json", {"group": "h"}).patch) == 40


def test_a_streamed_patch_is_truncated_when_its_principal_s_share_is_used_up() -> None:
    tokens = StaticTokens({"ada": Principal(id="ada")})
    limits = ServerLimits(answer_bytes_of_principal_max=PULL_START_BYTES_MAX + 50_000)
    with filled_store() as store, serving(Application(authenticate=tokens, limits=limits), store) as client:
        headers = {"Authorization": "Bearer ada"}
        last = mutation("d", 1, key="z/z", value="x" * (PULL_START_BYTES_MAX + 60_000))
        push(client, last, group="h", **headers)
        # The last operation of the patch is larger than the rest of the principal's share.
        with pytest.raises(LitestarException, match="after response started"):
            client.post(f"{BUDGET}/pull", json={"group": "h"}, headers=headers)
        assert client.app.state.service.byte_budgets.answers.used == 0
