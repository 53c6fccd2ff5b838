"""The example that verifies exports computes the store's hashes without Stratalog, and notices altered lines."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.maintenance.checkpoint import checkpoint_of
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.signed_note import new_signing_key, sign_note
from stratalog.maintenance.verification import HistoryName
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "verify_export.py"
GOLDEN = ROOT / "formats" / "golden" / "export-v1.jsonl"
PARTS = 8_388_609
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    PLAIN | st.binary(max_size=40) | st.binary(min_size=1500, max_size=1500),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", EXAMPLE, *arguments], capture_output=True, text=True, check=False)


def exported(document: stratalog.Document) -> bytes:
    file = BytesIO()
    export_document(document, file)
    return file.getvalue()


def verified(export: bytes) -> tuple[str, list[bytes]]:
    """Run the example's `verify` in this process. Return the origin and the hashes that `verify` computes."""
    space: dict[str, object] = {"__name__": "example"}
    exec(compile(EXAMPLE.read_text(), EXAMPLE, "exec"), space)
    return space["verify"](export.splitlines(keepends=True))  # type: ignore[operator]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exports and signed checkpoints of a document and of its fork.

    The document has inline values, values in one blob, and a value in several blobs.
    """
    folder = tmp_path_factory.mktemp("export")
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for key, value in {
            "cells/é.~ 1": {"id": "x" * 900, "name": "y" * 900, "text": "é" * 5000},
            ".hidden ~/1": "z" * 3000,
            "field": b"x" * 2000,
            "parts": bytes(PARTS),
        }.items():
            document.mutate("put", {"key": key, "value": value}, client="ada")
        fork = document.fork("draft")
        fork.apply([Mutation(client="local", name="no such mutator", args={"text": "x" * 3000, "small": 1})])
        fork.mutate("put", {"key": "cells/2", "value": -1.5})
        stratalog.merge(fork, document)
        fork.mutate("del", {"key": "field"})
        (folder / "plan.jsonl").write_bytes(exported(document))
        (folder / "draft.jsonl").write_bytes(exported(fork))
        key = new_signing_key(ManualClock(seed=1), "example.com/ledger")
        for name in ("plan", "draft"):
            note = sign_note(checkpoint_of(store, HistoryName("log", "acme", name)).text(), key)
            (folder / f"{name}.note").write_text(note)
        (folder / "key").write_text(str(key.verifier))
    return folder


def test_the_example_is_short_and_imports_nothing_of_stratalog() -> None:
    text = EXAMPLE.read_text()
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]  # type: ignore[union-attr]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - {"cryptography"} <= set(sys.stdlib_module_names)
    assert len(text.splitlines()) < 215


def test_the_example_verifies_the_golden_export() -> None:
    last = json.loads(GOLDEN.read_bytes().splitlines()[-2])
    assert run(GOLDEN).stdout == f"the chain holds: version {last['version']}, hash {last['hash']}\n"


@pytest.mark.parametrize("name", ["plan", "draft"])
def test_the_example_verifies_an_export_against_a_checkpoint(export: Path, name: str) -> None:
    done = run(export / f"{name}.jsonl", "--note", export / f"{name}.note", "--key", (export / "key").read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert "the export continues the history of the note" in done.stdout


def test_the_example_verifies_an_export_with_other_metadata_fields(tmp_path: Path) -> None:
    rules = stratalog.Rules(metadata_fields=("Title", "Release Date"))
    with stratalog.open("memory:", rules=rules, clock=ManualClock()) as store:
        document = store.create("acme", "movies")
        document.put("movies/1", {"id": 1, "Title": "1776", "Release Date": "Nov 09 1972", "plot": "x" * 2000})
        path = tmp_path / "movies.jsonl"
        path.write_bytes(exported(document))
        assert document.log.head().hash.hex() in run(path, "--fields", "Title,Release Date").stdout
    refuses(run(path), "version 1 does not follow")


def test_the_example_refuses_a_note_of_another_history_or_with_a_wrong_signature(export: Path, tmp_path: Path) -> None:
    note = (export / "plan.note").read_text()
    other = tmp_path / "other.note"
    for changed, options, reason in (
        (note.replace("\n5\n", "\n60\n"), [], "version 60 is missing or has another hash"),
        (note.replace("\n5\n", "\n4\n"), [], "version 4 is missing or has another hash"),
        (note.replace("\n5\n", "\n4\n"), ["--key", (export / "key").read_text()], "its signature is wrong"),
        (
            note,
            ["--key", str(new_signing_key(ManualClock(seed=2), "example.com/ledger").verifier)],
            "no signature of the key",
        ),
        (note.partition("\n\n")[0], [], "ValueError"),
    ):
        other.write_text(changed)
        assert changed != note or options
        refuses(run(export / "plan.jsonl", "--note", other, *options), reason)
    refuses(run(GOLDEN, "--note", export / "plan.note"), "version 5 is missing or has another hash")
    lines = note.splitlines(keepends=True)
    other.write_text("".join([*lines[:3], "another\n", *lines[4:]]))
    refuses(run(export / "plan.jsonl", "--note", other), "the note is of another history")


def refuses(done: subprocess.CompletedProcess[str], reason: str) -> None:
    """Check that the program prints one line with the reason, and no traceback."""
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("not verified: ")
    assert reason in done.stderr


@pytest.mark.parametrize("cut", ["at the end of a line", "inside the last line", "inside an entry", "to nothing"])
def test_the_example_refuses_a_truncated_export(cut: str, tmp_path: Path) -> None:
    export = GOLDEN.read_bytes()
    lines = export.splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(
        {
            "at the end of a line": b"".join(lines[:-1]),
            "inside the last line": export[:-10],
            "inside an entry": b"".join(lines[:2]) + lines[2][:50],
            "to nothing": b"",
        }[cut]
    )
    refuses(run(path), "the export is cut short, or was changed")


@pytest.mark.parametrize(
    ("old", "new"),
    [('"author":"grace"', '"author":"eve"'), ('"value":1.5', '"value":2.5'), ('"before":2', '"before":1')],
)
def test_the_example_refuses_an_altered_line(tmp_path: Path, old: str, new: str) -> None:
    refuses(run(altered(tmp_path, old, new)), "does not follow")


def test_the_example_refuses_a_line_without_a_field(tmp_path: Path) -> None:
    refuses(run(altered(tmp_path, '"author":"grace",', "")), "author")


def altered(tmp_path: Path, old: str, new: str) -> Path:
    """Write the golden export with ``old`` replaced by ``new``, and with a matching hash at the end."""
    text = GOLDEN.read_text().replace(old, new)
    assert text != GOLDEN.read_text()
    *lines, end = text.encode().splitlines(keepends=True)
    trailer = {**json.loads(end), "sha256": stratalog.codec.sha256(b"".join(lines)).hex()}
    path = tmp_path / "altered.jsonl"
    path.write_bytes(b"".join([*lines, json.dumps(trailer).encode() + b"\n"]))
    return path


@given(st.lists(VALUES, min_size=1, max_size=4), st.text(min_size=1, max_size=9))
def test_the_example_computes_the_hashes_of_the_store(values: list[object], collection: str) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for position, value in enumerate(values):
            document.mutate("put", {"key": f"{collection}/{position}", "value": value}, client="ada")
            document.apply([Mutation(client="local", name="no such mutator", args={"value": value, "other": values})])
        origin, hashes = verified(exported(document))
        assert (origin, hashes[-1]) == (document.log.record.origin, document.log.head().hash)
