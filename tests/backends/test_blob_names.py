"""The file name of a blob shows the content's type and compression, so that a person can open the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.backends.files import FileBlobs
from stratalog.codec import compress, encode, sha256
from stratalog.errors import NotFound, Unsupported
from stratalog.maintenance.collection import BLOB_FOLDERS
from stratalog.ports.blob_kinds import JSON, MSGPACK, MSGPACK_FOLDERS, OCTETS, BlobKind, kind_of, kinds_of
from stratalog.testing.clock import ManualClock

BODY = os.urandom(1000)
KEY = f"acme/records/r/bodies/{sha256(BODY).hex()}"
LARGE = {"title": "é", "numbers": [os.urandom(8).hex() for _ in range(10_000)]}
FAMILY = "acme/plan@abc"


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("[!.]*") if path.is_file())


def names_of(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in files_of(folder)]


def test_a_large_json_record_is_stored_as_zstd_compressed_json(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        store.records("acme").put("films", json.dumps(LARGE, ensure_ascii=False).encode())
    (path,) = files_of(tmp_path / "blobs")
    assert path.name.endswith(".json.zst")
    assert json.loads(zstandard.decompress(path.read_bytes())) == LARGE


def test_a_large_value_is_stored_as_zstd_compressed_messagepack(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        store.create("acme", "plan").mutate("put", {"key": "films/1", "value": LARGE})
    opened = {path.parent.name: path for path in files_of(tmp_path / "blobs")}
    assert {path.name[64:] for path in opened.values()} == {".msgpack.zst"}
    assert msgspec.msgpack.decode(zstandard.decompress(opened["films"].read_bytes())) == LARGE


@pytest.mark.parametrize(
    ("key", "body", "kind"),
    [
        ("acme/records/r/bodies/", b'{"a": 1}', JSON),
        ("acme/records/r/bodies/", b"\n [1, 2]", JSON),
        ("acme/records/r/bodies/", b'{"a": 1', OCTETS),
        ("acme/records/r/bodies/", b'{"a": 1}{"a": 2}', OCTETS),
        ("acme/records/r/bodies/", b'["\xff"]', OCTETS),
        ("acme/records/r/bodies/", b"", OCTETS),
        ("acme/records/r/bodies/", b"[" * 100_000, OCTETS),
        (f"{FAMILY}/bodies/", b"[1]", MSGPACK),
        (f"{FAMILY}/items/films/", b"", MSGPACK),
        (f"{FAMILY}/app-snapshots/", b"[1]", JSON),
        (f"{FAMILY}/pictures/", b"\x89PNG", OCTETS),
        ("acme/queue/plan@abc/token/", b"\x90", MSGPACK),
    ],
)
def test_the_folder_and_the_content_determine_the_kind(key: str, body: bytes, kind: BlobKind) -> None:
    assert kind_of(key + sha256(body).hex(), body) == kind


@given(
    st.lists(st.sampled_from(["acme", "queue", "records", "plan@abc", "items", "bodies", "x"]), max_size=5),
    st.binary() | st.recursive(st.integers() | st.text(), st.lists).map(lambda value: json.dumps(value).encode()),
)
def test_the_kind_of_a_blob_is_deterministic_and_among_the_kinds_of_its_key(folders: list[str], body: bytes) -> None:
    key = "/".join([*folders, sha256(body).hex()])
    assert kind_of(key, body) == kind_of(key, body)
    assert kind_of(key, body) in kinds_of(key)


def test_the_folders_of_the_collector_are_the_messagepack_folders_and_app_snapshots() -> None:
    assert {*MSGPACK_FOLDERS, "app-snapshots"} == {*BLOB_FOLDERS}


def test_repeated_puts_of_a_body_leave_a_single_file(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    for _ in range(3):
        blobs.put(KEY, BODY)
    assert names_of(tmp_path) == [f"{KEY}.bin.zst"]


def old(folder: Path) -> None:
    """Write a blob's file in format 1, in which the file's path is the key without suffixes."""
    (folder / KEY).parent.mkdir(parents=True)
    (folder / KEY).write_bytes(compress(BODY))


def test_a_file_of_format_1_is_readable_and_the_next_put_replaces_it(tmp_path: Path) -> None:
    old(tmp_path)
    blobs = FileBlobs(tmp_path, ManualClock())
    assert blobs.get(KEY) == BODY
    (before,) = blobs.list("acme/")
    assert before == blobs.stat(KEY)
    blobs.put(KEY, BODY)
    assert names_of(tmp_path) == [f"{KEY}.bin.zst"]
    assert not blobs.delete(KEY, before.stamp)
    assert blobs.get(KEY) == BODY


def test_a_file_of_format_1_can_be_deleted(tmp_path: Path) -> None:
    old(tmp_path)
    blobs = FileBlobs(tmp_path, ManualClock())
    (stat,) = blobs.list("")
    assert blobs.delete(KEY, stat.stamp)
    assert (blobs.stat(KEY), names_of(tmp_path)) == (None, [])


def test_a_file_with_the_new_name_overrides_a_file_of_format_1_of_the_same_blob(tmp_path: Path) -> None:
    """Both files exist, as after a power failure that undid the removal of the older file."""
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    (tmp_path / KEY).write_bytes(b"the older file")
    assert blobs.get(KEY) == BODY
    assert [*blobs.list("")] == [blobs.stat(KEY)]
    blobs.put(KEY, BODY)
    assert names_of(tmp_path) == [f"{KEY}.bin.zst"]


@pytest.mark.parametrize("method", ["get", "stat"])
def test_a_reader_finds_a_blob_of_format_1_while_a_put_replaces_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The put happens between the reader's lookup of the new name and its lookup of the old name."""
    old(tmp_path)
    blobs = FileBlobs(tmp_path, ManualClock())
    module, name = (Path, "read_bytes") if method == "get" else (os, "stat")
    looks_at = getattr(module, name)

    def put_before_the_last(path: Any, *rest: Any, **options: Any) -> Any:
        if os.fspath(path) == str(tmp_path / KEY):
            monkeypatch.undo()
            blobs.put(KEY, BODY)
        return looks_at(path, *rest, **options)

    monkeypatch.setattr(module, name, put_before_the_last)
    assert getattr(blobs, method)(KEY)
    assert names_of(tmp_path) == [f"{KEY}.bin.zst"]


def test_a_list_has_a_blob_of_format_1_while_a_put_replaces_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The put happens after the list has read the folder, and before it looks at the file."""
    old(tmp_path)
    blobs = FileBlobs(tmp_path, ManualClock())
    looks_at = os.stat

    def put_before(path: Any, *rest: Any, **options: Any) -> Any:
        if path == str(tmp_path / KEY):
            monkeypatch.undo()
            blobs.put(KEY, BODY)
        return looks_at(path, *rest, **options)

    monkeypatch.setattr(os, "stat", put_before)
    assert [stat.key for stat in blobs.list("")] == [KEY]
    assert names_of(tmp_path) == [f"{KEY}.bin.zst"]


def test_a_file_with_an_unknown_suffix_is_not_a_blob(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    for suffix in (".bin", ".json", ".bin.zst.copy", ".txt.zst"):
        (tmp_path / f"{KEY}{suffix}").write_bytes(BODY)
    (stat,) = blobs.list("")
    assert blobs.delete(KEY, stat.stamp)
    assert list(blobs.list("")) == []
    with pytest.raises(NotFound):
        blobs.get(KEY)


def test_a_file_of_an_unknown_codec_is_unsupported(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path, ManualClock())
    blobs.put(KEY, BODY)
    os.rename(tmp_path / f"{KEY}.bin.zst", tmp_path / f"{KEY}.bin.br")
    with pytest.raises(Unsupported) as caught:
        blobs.get(KEY)
    assert caught.value.details == {"codec": ".br", "key": KEY}


def test_a_text_value_that_contains_json_has_the_suffix_of_messagepack(tmp_path: Path) -> None:
    body = encode("[1]")
    key = f"{FAMILY}/fields/{sha256(body).hex()}"
    FileBlobs(tmp_path, ManualClock()).put(key, body)
    assert names_of(tmp_path) == [f"{key}.msgpack.zst"]
