"""An export contains the whole document. An import restores the whole document or creates nothing."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.errors import Conflict, Corrupt, Invalid, LimitExceeded, NotFound, Unavailable, Unsupported
from stratalog.limits import KEY_BYTES_MAX
from stratalog.log.lifecycle import delete_log
from stratalog.maintenance import document_import
from stratalog.maintenance.document_export import (
    BATCH_MUTATIONS,
    export_document,
    export_state,
    import_state,
    is_export,
)
from stratalog.maintenance.document_import import import_document
from stratalog.protocol import Mutation, messages
from stratalog.protocol.readable import from_json, to_plain


@pytest.fixture
def store() -> Iterator[stratalog.Store]:
    settings = stratalog.LogSettings(segment_entries_target=8, snapshot_entries_interval=5)
    with stratalog.open("memory:", settings=settings) as store:
        yield store


@pytest.fixture
def document(store: stratalog.Store) -> stratalog.Document:
    made = store.create("acme", "budget")
    for number in range(20):
        value = {"number": number, "bytes": b"\x00\xff", "large": "y" * 3000}
        made.mutate("put", {"key": f"cells/{number % 7}", "value": value}, client="ada", author="grace")
    made.apply([Mutation(client="local", name="no such mutator")])
    made.mutate("del", {"key": "cells/1"})
    made.mutate("put", {"key": "cells/1", "value": {"$bytes": 3}})
    made.mutate("put", {"key": "field", "value": 1.5})
    made.collect_clients(["ada"])
    return made


def exported(document: stratalog.Document) -> io.BytesIO:
    file = io.BytesIO()
    export_document(document, file)
    return file


def assert_same(source: stratalog.Document, copy: stratalog.Document) -> None:
    assert list(copy.versions()) == list(source.versions())
    assert [entry.write_id for entry in copy.log.read()] == [entry.write_id for entry in source.log.read()]
    assert dict(copy.state().client_ids()) == dict(source.state().client_ids())
    for version in range(source.version + 1):
        assert copy.at(version).to_dict() == source.at(version).to_dict()
        assert copy.at(version).content_digest() == source.at(version).content_digest()
    stratalog.verify(copy)


def test_an_imported_document_equals_its_source_at_every_version(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    assert_same(document, import_document(store, "acme", "again", exported(document)))


def test_an_imported_empty_document_is_empty(store: stratalog.Store) -> None:
    source = store.create("acme", "empty")
    assert_same(source, import_document(store, "acme", "again", exported(source)))


@pytest.mark.parametrize("own", [0, 1])
def test_an_imported_fork_of_a_fork_has_only_its_own_clients(
    store: stratalog.Store, document: stratalog.Document, own: int
) -> None:
    fork = document.fork("fork", at=12)
    fork.mutate("put", {"key": "cells/1", "value": 1}, client="ada")
    second = fork.fork("second")
    for _ in range(own):
        second.mutate("inc", {"key": "cells/1"}, client="ada")
    copy = import_document(store, "zeta", "again", exported(second))
    assert_same(second, copy)
    assert copy.last_mutation("ada") == own
    assert [line.id for line in store.list("zeta")] == ["again"]


def test_an_imported_document_continues_the_mutation_ids_of_its_clients(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    document.mutate("put", {"key": "k", "value": 1}, client="bob")
    copy = import_document(store, "acme", "again", exported(document))
    assert copy.mutate("put", {"key": "k", "value": 1}, client="bob", id=1).status == "seen"
    assert copy.mutate("inc", {"key": "k"}, client="bob", id=2).status == "applied"


def changed(file: io.BytesIO, line: int, **fields: object) -> io.BytesIO:
    lines = file.getvalue().splitlines()
    lines[line] = json.dumps({**json.loads(lines[line]), **fields}).encode()
    return io.BytesIO(b"\n".join(lines) + b"\n")


def test_a_newer_format_is_unsupported(store: stratalog.Store, document: stratalog.Document) -> None:
    with pytest.raises(Unsupported):
        import_document(store, "acme", "again", changed(exported(document), 0, format_version=2))
    assert_nothing_made(store)


def test_another_format_is_invalid(store: stratalog.Store) -> None:
    with pytest.raises(Invalid):
        import_document(store, "acme", "again", io.BytesIO(b'{"format": "other"}\n'))


@pytest.mark.parametrize("line", [1, 5, -1])
def test_a_changed_line_is_corrupt(store: stratalog.Store, document: stratalog.Document, line: int) -> None:
    with pytest.raises(Corrupt):
        import_document(store, "acme", "again", changed(exported(document), line, author="mallory", sha256="0"))
    assert_nothing_made(store)


def test_an_export_that_is_cut_after_its_first_line_is_corrupt(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    data = exported(document).getvalue()
    for end in range(len(data.splitlines()[0]) + 1, len(data) - 1, 997):
        with pytest.raises(Corrupt):
            import_document(store, "acme", "again", io.BytesIO(data[:end]))
    assert_nothing_made(store)


def test_an_import_with_an_altered_patch_and_a_correct_file_hash_is_undone(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    lines = [json.loads(line) for line in exported(document).getvalue().splitlines()]
    lines[10]["patch"][0]["before"] = 1
    with pytest.raises(Corrupt):
        import_document(store, "acme", "again", sealed(lines))
    assert_nothing_made(store)


def test_an_import_with_a_wrong_content_digest_is_undone(store: stratalog.Store, document: stratalog.Document) -> None:
    lines = [json.loads(line) for line in exported(document).getvalue().splitlines()]
    lines[-1]["digest"] = "00" * 32
    with pytest.raises(Corrupt):
        import_document(store, "acme", "again", sealed(lines))
    assert_nothing_made(store)


def sealed(lines: list[dict[str, object]]) -> io.BytesIO:
    """Return the lines as a file whose last line has the correct hash of the other lines."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    lines[-1]["sha256"] = hashlib.sha256(body).hexdigest()
    return io.BytesIO(body + json.dumps(lines[-1]).encode() + b"\n")


def assert_nothing_made(store: stratalog.Store) -> None:
    with pytest.raises(NotFound):
        store.document("acme", "again")
    assert [line.id for line in store.list("acme")] == ["budget"]


def test_an_import_to_an_existing_name_is_refused(store: stratalog.Store, document: stratalog.Document) -> None:
    other = store.create("acme", "other")
    with pytest.raises(Conflict):
        import_document(store, "acme", "other", exported(document))
    assert store.document("acme", "other").version == other.version == 0


def test_an_error_after_the_document_is_published_does_not_delete_it(
    store: stratalog.Store, document: stratalog.Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = document.fork("fork")
    fork.put("own", 1)

    failures = [Unavailable("simulated")]

    def fail_once(log: stratalog.Log) -> None:
        if failures:
            raise failures.pop()
        delete_log(log)

    monkeypatch.setattr(document_import, "delete_log", fail_once)
    with pytest.raises(Unavailable):
        import_document(store, "acme", "again", exported(fork))
    assert_same(fork, store.document("acme", "again"))


def test_an_interrupted_import_leaves_no_log(store: stratalog.Store, document: stratalog.Document) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_document(store, "acme", "again", exported(document), interrupt)
    assert_nothing_made(store)


def test_a_log_left_by_a_killed_import_is_not_a_document_and_can_be_deleted(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    class Died(BaseException):
        pass

    def die(_: int) -> None:
        raise Died

    with pytest.raises(Died):
        import_document(store, "acme", "again", exported(document), die)
    with pytest.raises(Invalid):
        store.document("acme", "again")
    delete_log(store.log("acme", "again"))
    assert_same(document, import_document(store, "acme", "again", exported(document)))


def test_a_document_with_forgotten_versions_cannot_be_exported(
    store: stratalog.Store, document: stratalog.Document
) -> None:
    document.forget_below(10)
    with pytest.raises(Invalid):
        exported(document)


def test_an_exported_state_can_be_imported(store: stratalog.Store, document: stratalog.Document) -> None:
    file = io.BytesIO()
    done = export_state(document, file, 12)
    target = store.create("acme", "target")
    assert not is_export(file)
    assert import_state(target, file) == done.lines
    assert target.at().content_digest() == done.digest


@pytest.mark.parametrize("line", [b"[]", b'{"key": 1}', b"nonsense", b'{"key": "a", "value": 1, "more": 2}'])
def test_an_invalid_line_of_a_state_imports_nothing(store: stratalog.Store, line: bytes) -> None:
    target = store.create("acme", "target")
    with pytest.raises(Invalid):
        import_state(target, io.BytesIO(b'{"key": "a", "value": 1}\n\n' + line + b"\n"))
    assert target.version == 0


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "$bytes", "$$bytes", "a", "b"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_every_value_survives_a_round_trip_through_json(value: object) -> None:
    assert from_json(msgspec.json.encode(to_plain(value))) == value


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"nonsense", Invalid),
        (b'{"key": "/a", "value": 1}', Invalid),
        (b'{"key": "%s", "value": 1}' % (b"a" * (KEY_BYTES_MAX + 1)), LimitExceeded),
        (b'{"key": "a", "value": "%s"}' % (b"a" * 10_000), LimitExceeded),
    ],
    ids=["no JSON", "key", "long key", "large value"],
)
def test_an_invalid_line_after_the_first_batch_of_a_state_imports_nothing(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch, line: bytes, error: type[stratalog.StratalogError]
) -> None:
    monkeypatch.setattr(messages, "VALUE_BYTES_MAX", 10_000)
    target = store.create("acme", "target")
    lines = [b'{"key": "k%d", "value": 1}\n' % number for number in range(BATCH_MUTATIONS)]
    with pytest.raises(error):
        import_state(target, io.BytesIO(b"".join(lines) + line + b"\n"))
    assert target.version == 0


def test_the_import_of_a_state_with_a_lone_surrogate_names_the_surrogate(store: stratalog.Store) -> None:
    with pytest.raises(Invalid, match=r"a string has a lone surrogate \(byte 20\)"):
        import_state(store.create("acme", "copy"), io.BytesIO(rb'{"key":"a","value":"\ud800"}'))


def test_the_import_of_a_document_with_a_lone_surrogate_names_the_surrogate(store: stratalog.Store) -> None:
    header = b'{"format":"stratalog-export","format_version":1}\n'
    with pytest.raises(Corrupt, match=r"a string has a lone surrogate \(byte 23\)"):
        import_document(store, "acme", "copy", io.BytesIO(header + rb'{"version":1,"author":"\ud800"}'))
