"""The server reads a request body only for a handler that takes a body. The budgets limit the memory of the body."""

from __future__ import annotations

import errno
import gzip
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import REQUEST_DEPTH_MAX
from stratalog.server import records
from stratalog.server.application import Application, ServerLimits
from stratalog.server.bodies import JSON, decode_body
from stratalog.server.decoded_sizes import JsonSize, msgpack_size
from stratalog.server.packed_bodies import PackedBody
from stratalog.server.security import Principal, StaticTokens
from tests.server.api import BUDGET, Client, problem, serving

RECORD = "/v1/organisations/acme/records/report"
BODIES = (os.urandom(20_000), b"B" * 300_000)
Pack = Callable[[bytes], bytes]


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


def zstd_without_size(body: bytes) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(body) + packer.flush()


PACKS = [("gzip", gzip.compress), ("zstd", zstd), ("zstd", zstd_without_size)]


@pytest.mark.parametrize(("encoding", "pack"), PACKS)
def test_a_body_of_several_gzip_members_or_zstd_frames_is_concatenated(
    client: Client, encoding: str, pack: Pack
) -> None:
    packed = b"".join(map(pack, BODIES))
    assert client.put(RECORD, content=packed, headers={"Content-Encoding": encoding}).status_code == 200
    assert client.get(RECORD).content == b"".join(BODIES)


@pytest.mark.parametrize(("encoding", "pack"), PACKS)
def test_a_truncated_compressed_body_or_trailing_garbage_is_invalid(client: Client, encoding: str, pack: Pack) -> None:
    first, second = map(pack, BODIES)
    for packed in (first[:-1], first[:9000], first + second[:-1], first + b"garbage", b""):
        answer = client.put(RECORD, content=packed, headers={"Content-Encoding": encoding})
        assert problem(answer) == (400, "invalid")
    assert client.get(RECORD).status_code == 404


def test_a_body_with_two_content_encodings_is_refused(client: Client) -> None:
    answer = client.put(RECORD, content=gzip.compress(b"x"), headers={"Content-Encoding": "gzip, gzip"})
    assert problem(answer) == (415, "unsupported-media-type")


@pytest.mark.parametrize(("encoding", "pack"), PACKS)
@pytest.mark.parametrize("arrived_bytes", [1, 1000, 10**9])
def test_decompression_does_not_depend_on_the_sizes_of_the_received_pieces(
    encoding: str, pack: Pack, arrived_bytes: int
) -> None:
    packed, body = b"".join(map(pack, BODIES)), PackedBody(encoding)
    arrived = (packed[start : start + arrived_bytes] for start in range(0, len(packed), arrived_bytes))
    assert b"".join(piece for part in arrived for piece in body.unpack(part)) == b"".join(BODIES)
    body.finish()


@pytest.mark.parametrize(("encoding", "pack"), PACKS)
def test_a_decompression_bomb_yields_pieces_of_bounded_size(encoding: str, pack: Pack) -> None:
    pieces = PackedBody(encoding).unpack(pack(b"\0" * 50_000_000))
    assert max(map(len, pieces)) <= 5 * 1024 * 1024


@pytest.mark.parametrize(("encoding", "pack"), PACKS)
def test_a_body_of_too_many_gzip_members_or_zstd_frames_is_refused(encoding: str, pack: Pack) -> None:
    with pytest.raises(LimitExceeded, match="too many members"):
        list(PackedBody(encoding).unpack(pack(b"") * 1001))


def test_a_zstd_frame_with_too_large_a_window_is_refused(client: Client) -> None:
    client.put(BUDGET)
    far = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=False)
    packed = zstandard.ZstdCompressor(compression_params=far).compressobj()
    body = packed.compress(b"{}") + packed.flush()
    answer = client.post(f"{BUDGET}/pull", content=body, headers={"Content-Encoding": "zstd", "Content-Type": JSON})
    assert problem(answer) == (400, "invalid")


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("GET", "/web/client/stratalog.js"), ("GET", "/x")])
def test_a_route_that_takes_no_body_does_not_decompress_the_request_body(
    client: Client, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = client.request(method, path).status_code
    monkeypatch.setattr(PackedBody, "unpack", None)
    answer = client.request(method, path, content=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == expected


def test_the_body_of_an_unauthorised_write_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackedBody, "unpack", None)
    tokens = StaticTokens({"reader": Principal(id="r", read_only=True)})
    with serving(Application(authenticate=tokens)) as client:
        for token, status in (("reader", 403), ("wrong", 401)):
            headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}
            assert client.put(RECORD, content=b"no gzip", headers=headers).status_code == status


def in_flight(**limits: int) -> Application:
    tokens = StaticTokens({"ada": Principal(id="ada"), "bob": Principal(id="bob")})
    return Application(authenticate=tokens, limits=ServerLimits(**limits))


def put(client: Client, size: int, token: str = "ada") -> Any:
    return client.put(RECORD, content=b"x" * size, headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize(
    ("principal_max", "process_max", "scope", "status"),
    [(1000, 3000, "principal", 429), (3000, 1000, "process", 503)],
)
def test_body_bytes_are_bounded_by_principal_and_by_process_and_released_after_each_request(
    principal_max: int, process_max: int, scope: str, status: int
) -> None:
    document = {"Authorization": "Bearer ada"}
    limits = {"body_bytes_in_flight_max": process_max, "body_bytes_of_principal_max": principal_max}
    with serving(in_flight(**limits)) as client:
        client.put(BUDGET, headers=document)
        # Together these bodies have more bytes than the limit.
        for _ in range(10):
            answer = client.post(f"{BUDGET}/pull", json={"group": "g" * 100}, headers=document)
            assert answer.status_code == 200
        answer = client.post(f"{BUDGET}/pull", json={"group": "g" * 2000}, headers=document)
    assert (answer.status_code, answer.json()["limit"], answer.json()["scope"]) == (status, 1000, scope)


def test_temporary_files_are_bounded_by_principal() -> None:
    with serving(in_flight(file_bytes_max=3000, file_bytes_of_principal_max=1000)) as client:
        assert [put(client, size).status_code for size in (1000, 1000, 1001)] == [200, 200, 429]


def test_a_full_temporary_folder_is_507_and_a_later_request_succeeds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    class Full:
        write = fail

    spool = records._spool
    monkeypatch.setattr(records, "_spool", lambda _, piece: spool(Full(), piece))  # type: ignore[arg-type]
    assert problem(client.put(RECORD, content=b"x")) == (507, "storage-full")
    monkeypatch.undo()
    assert client.put(RECORD, content=b"x").status_code == 200


ELEMENTS = ["{}", "[]", "300", "1.5", '"a"', '"ab"', '"é"', '{"a":1}', "[1]", "[1,2,3]", '{"a":{}}', '"\\""', '"[{,:"']


def json_size(body: bytes, piece_bytes: int = 10**9) -> JsonSize:
    size = JsonSize()
    for start in range(0, len(body), piece_bytes):
        size.add(body[start : start + piece_bytes])
    return size


def decoded(body: bytes, kind: str) -> int:
    """Return the peak memory of decoding, in bytes."""
    tracemalloc.start()
    try:
        decode_body(body, kind)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("element", ELEMENTS)
def test_no_body_takes_more_memory_than_was_counted(element: str) -> None:
    text = f"[{','.join([element] * 20_000)}]".encode()
    assert decoded(text, "application/json") <= json_size(text).decoded_bytes + 100_000
    packed = msgspec.msgpack.encode(msgspec.json.decode(text))
    assert decoded(packed, "application/msgpack") <= msgpack_size(packed, 10**9) + 100_000


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7])
def test_the_counted_size_of_a_json_body_hardly_depends_on_the_piece_size(piece_bytes: int) -> None:
    text = b'{"a\\\\": [1, "\\"[{", {"b": "\\\\\\\\\\"]"}], "c": [[[]]]}'
    at_once, pieces = json_size(text), json_size(text, piece_bytes)
    assert abs(at_once.decoded_bytes - pieces.decoded_bytes) <= 44 * len(text) / piece_bytes / 2


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 5, 7])
def test_an_escape_sequence_split_between_pieces_is_counted_as_a_wide_character(piece_bytes: int) -> None:
    text = b'"' + b"x" * 10_000 + b'\\ud83d\\ude00"'
    assert json_size(text, piece_bytes).decoded_bytes >= 4 * len(text)


@pytest.mark.parametrize("piece_bytes", [1, 7, 50, 10**9])
@pytest.mark.parametrize(("depth", "is_too_deep"), [(72, False), (73, True)])
def test_depth_is_counted_outside_of_strings(piece_bytes: int, depth: int, is_too_deep: bool) -> None:
    text = b'["\\\\", "\\"[[[[", {}], ' * 100 + b"[" * depth + b"]" * depth
    assert json_size(text, piece_bytes).is_too_deep == is_too_deep


@given(
    st.lists(st.tuples(st.sampled_from(["{", "}", "[", "]", "{}", "[{", "}]", "1,"]), st.integers(1, 80)), max_size=12)
)
def test_the_computed_depth_equals_the_depth_counted_per_character(runs: list[tuple[str, int]]) -> None:
    text, level, is_too_deep = "".join(part * times for part, times in runs), 0, False
    for character in text:
        level += {"{": 1, "[": 1, "}": -1, "]": -1}.get(character, 0)
        is_too_deep |= level > REQUEST_DEPTH_MAX
    size = json_size(text.encode())
    assert (size.is_too_deep, size._level) == (is_too_deep, level)


def test_a_small_compressed_body_of_very_many_elements_is_refused(client: Client) -> None:
    client.put(BUDGET)
    body = b'{"group":"g","cookie":[' + b"{}," * 2_000_000 + b"{}]}"
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = client.post(f"{BUDGET}/pull", content=gzip.compress(body), headers=headers)
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == 6 * 16 * 1024 * 1024


@pytest.mark.parametrize("body", [b"\xdd\xff\xff\xff\xff", b"\xdf\x00\xff\xff\xff", b"\xdd\x00\x0f\xff\xff" * 60])
def test_a_messagepack_header_that_announces_missing_elements_is_invalid(body: bytes) -> None:
    with pytest.raises(Invalid):
        msgpack_size(body, 10**9)


def test_bytes_in_json_are_decoded_at_any_depth_and_with_escaped_keys() -> None:
    body = b'{"a": [{"$bytes": "aGk="}], "b": {"$$bytes": 1}, "c": {"\\u0024bytes": "aGk="}}'
    assert decode_body(body, "application/json") == {"a": [b"hi"], "b": {"$bytes": 1}, "c": b"hi"}
