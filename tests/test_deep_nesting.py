"""A text or body that is nested too deeply for msgspec is refused with a typed error, as any other bad input."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog.backups.format import decode_manifest
from stratalog.codec import decode
from stratalog.errors import Corrupt, LimitExceeded
from stratalog.limits import JSON_DEPTH_MAX
from stratalog.log import Event
from stratalog.maintenance.document_import import import_document
from stratalog.protocol.readable import from_json
from stratalog.worker.messages import FORMAT, read_message
from tests.sources import PACKAGES, ROOT, files

LEVELS = 100_000
JSON = b"[" * LEVELS + b"]" * LEVELS
IN_OBJECT = b'{"unknown": ' + JSON + b"}"
PACKED = b"\x91" * LEVELS + b"\xc0"


def packed_with_nested_end(*fields: object) -> bytes:
    """Return an array of ``fields`` and of one more value, which is nested too deeply, after the byte of a format."""
    packed = msgspec.msgpack.encode([*fields, None])
    return bytes([FORMAT]) + packed[:-1] + PACKED


def nested(kind: type) -> Any:
    value: Any = 1
    for _ in range(LEVELS):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_a_value_that_is_nested_too_deeply_exceeds_a_named_limit_at_each_call_that_stores_it(kind: type) -> None:
    value = nested(kind)
    with stratalog.open("memory:") as store:
        document, log, records = store.create("acme", "plan"), store.create_log("acme", "facts"), store.records("acme")
        calls: list[Callable[[], object]] = [
            lambda: document.put("k", value),
            lambda: document.patch("k", {"a": value}),
            lambda: document.mutate("append", {"key": "k", "item": value}),
            lambda: document.apply([stratalog.Mutation(client="ada", id=1, name="put", args=value)]),
            lambda: log.append(Event("fact", value)),
            lambda: records.put("report", b"body", metadata={"a": value}),
        ]
        for call in calls:
            with pytest.raises(LimitExceeded) as caught:
                call()
            assert caught.value.details["limit"] == JSON_DEPTH_MAX
        assert (document.version, log.head().version) == (0, 0)


def test_a_text_of_json_that_is_nested_too_deeply_exceeds_the_limit_of_values() -> None:
    with pytest.raises(LimitExceeded) as caught:
        from_json(JSON)
    assert caught.value.details == {"limit": JSON_DEPTH_MAX}


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (decode, PACKED),
        (decode_manifest, IN_OBJECT),
        (read_message, packed_with_nested_end("", "", "", "", 0, "", b"", None)),
    ],
    ids=["value", "manifest of a backup", "message of a queue"],
)
def test_a_stored_body_that_is_nested_too_deeply_is_corrupt(read: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(Corrupt):
        read(body)


def test_each_handler_of_a_text_that_does_not_decode_handles_deep_nesting_too() -> None:
    """msgspec raises RecursionError also in a part that it skips, such as an attribute that it does not know."""

    def names(node: ast.AST) -> set[str]:
        return {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(node)}

    def caught(node: ast.AST) -> set[str]:
        if isinstance(node, ast.Try):
            return {name for handler in node.handlers if handler.type is not None for name in names(handler.type)}
        is_suppress = isinstance(node, ast.Call) and names(node.func) == {"suppress"}
        return names(node) if is_suppress else set()

    refused = [
        f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
        for path in files(*PACKAGES)
        for node in ast.walk(ast.parse(path.read_text()))
        if "DecodeError" in caught(node) and "RecursionError" not in caught(node)
    ]
    assert refused == []


def test_an_export_with_a_line_that_is_nested_too_deeply_is_corrupt() -> None:
    with stratalog.open("memory:") as store, pytest.raises(Corrupt):
        import_document(store, "acme", "plan", io.BytesIO(JSON))
