"""Export of a document to a file of JSON lines: every version, or the state of one version.

`formats/export.md` describes the lines. `document_import` creates a document from an export of versions. `import_state`
puts the keys and values of an exported state into a document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from stratalog.codec import decode, encode
from stratalog.documents import Document
from stratalog.documents.commit_builder import load_arguments
from stratalog.documents.commits import COMMIT, Commit, PatchRow, Recorded, read_commit
from stratalog.documents.history import reading_entry
from stratalog.errors import Conflict, Invalid
from stratalog.log import Entry
from stratalog.log.callbacks import Report
from stratalog.protocol.keys import check_key
from stratalog.protocol.messages import Mutation, check_payload
from stratalog.protocol.readable import from_json, to_plain

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Exchanged",
    "export_document",
    "export_state",
    "import_state",
    "is_export",
]

FORMAT = "stratalog-export"
FORMAT_VERSION = 1
BATCH_MUTATIONS = 500
BATCH_BYTES = 4 * 1024 * 1024
IMPORT_CLIENT = "import"


class Exchanged(msgspec.Struct, frozen=True):
    """The result of an export: its last version, its number of lines, and the digest of that version's content."""

    version: int
    lines: int
    digest: str


def export_document(document: Document, file: BinaryIO, progress: Report | None = None) -> Exchanged:
    """Write every version of ``document`` up to its present head. Raises Invalid if history was forgotten.

    ``progress`` is called with the number of versions written since its last call.
    """
    if document.log.floor():
        raise Invalid("the document has forgotten versions; export its state instead", document=document.name)
    head = document.log.head()
    lines = _Lines(file)
    lines.write(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "organisation": document.organisation,
            "document": document.name,
            "created_ms": document.log.record.created_ms,
            "origin": document.log.record.origin,
            "head": head.version,
            "forked_at": [parent.version for parent in document.log.record.lineage],
        }
    )
    for entry in document.log.read(0, head.version, head=head):
        with reading_entry(document.log, entry.version):
            lines.write(_entry_line(document, entry))
        _report(progress, 1)
    digest = document.at(head.version).content_digest()
    lines.write({"end": head.version, "digest": digest, "sha256": lines.sha256()})
    return Exchanged(head.version, lines.count, digest)


def export_state(document: Document, file: BinaryIO, at: int | None = None) -> Exchanged:
    """Write the keys and values of one version (by default the newest), one line for each key, in order of key."""
    view = document.at(at)
    lines = _Lines(file)
    for key, value in view.scan():
        lines.write({"key": key, "value": to_plain(value)})
    return Exchanged(view.version, lines.count, view.content_digest())


def is_export(file: BinaryIO) -> bool:
    """Return whether a seekable file is an export of versions, and rewind it."""
    file.seek(0)
    first = file.readline()
    file.seek(0)
    return b'"format"' in first and isinstance(line := from_json(first), dict) and "format" in line


def import_state(document: Document, file: BinaryIO, progress: Report | None = None) -> int:
    """Put the keys and values of a file of lines ``{"key", "value"}`` into a document, and return the number of lines.

    All lines are checked before the first line is put. A batch of puts ends at `BATCH_MUTATIONS` puts, or after the
    line that brings it to `BATCH_BYTES`. ``progress`` is called with the number of lines in each batch.

    Raises Invalid for a malformed line or key, and LimitExceeded for a key that is too long, or a value that is too
    large or nested too deeply: nothing is put. Raises Conflict if a put was rejected, as by an application's own
    mutator: the earlier batches and the other puts of the same batch stay.
    """
    for args, _ in _pairs(file):
        check_key(args["key"])
        check_payload(encode(args))
    count = 0
    for batch in _batches(_pairs(file)):
        for outcome in document.apply(batch, author=IMPORT_CLIENT):
            if outcome.status != "applied":
                raise Conflict(
                    "the document rejected a line", status=outcome.status, reason=outcome.reason, lines=count
                )
        count += len(batch)
        _report(progress, len(batch))
    return count


class _Lines:
    """Writes JSON lines to a file and hashes them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.count = 0

    def write(self, plain: dict[str, Any]) -> None:
        line = msgspec.json.encode(plain) + b"\n"
        self._hash.update(line)
        self._file.write(line)
        self.count += 1

    def sha256(self) -> str:
        return self._hash.hexdigest()


def _entry_line(document: Document, entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = {
        "version": entry.version,
        "created_ms": entry.created_ms,
        "author": entry.author,
        "principal": entry.principal,
        "write_id": entry.write_id,
    }
    if entry.redacted:
        return {**line, "redacted": entry.redacted.hex(), "hash": entry.hash.hex()}
    line |= {"salt": entry.salt.hex(), "hash": entry.hash.hex()}
    event = entry.events[0]
    if event.type != COMMIT:
        return {**line, "event": [event.type, to_plain(event.data), event.schema]}
    commit = read_commit(entry)
    line["mutations"] = [_mutation_plain(document, commit, recorded) for recorded in commit.mutations]
    line["patch"] = [_change_plain(document, change) for change in commit.patch]
    line["bindings"] = commit.bindings
    line["fields_bytes"] = commit.fields_bytes
    if commit.merged is not None:
        line["merged"] = to_plain([commit.merged.client, commit.merged.version, commit.merged.hash])
    return line


def _mutation_plain(document: Document, commit: Commit, recorded: Recorded) -> dict[str, Any]:
    return {
        "client": recorded.client,
        "id": recorded.id,
        "name": recorded.name,
        "args": to_plain(load_arguments(recorded, commit.patch, document.stored_values)),
        "reason": recorded.reason,
        "origin": recorded.origin,
    }


def _change_plain(document: Document, change: PatchRow) -> dict[str, Any]:
    plain = {"key": change.key, "before": change.before, "by": change.by}
    if change.value is None:
        return {**plain, "deleted": True}
    return {**plain, "value": to_plain(decode(document.stored_values.load(change.value)))}


def _pairs(file: BinaryIO) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the arguments of a put for each line, and the line's size in bytes."""
    file.seek(0)
    for number, raw in enumerate(file, 1):
        if not raw.strip():
            continue
        line = from_json(raw)
        if not isinstance(line, dict) or line.keys() != {"key", "value"}:
            raise Invalid('a line must be {"key": …, "value": …}', line=number)
        yield line, len(raw)


def _batches(pairs: Iterable[tuple[dict[str, Any], int]]) -> Iterator[list[Mutation]]:
    batch, size = list[Mutation](), 0
    for args, length in pairs:
        batch.append(Mutation(client=IMPORT_CLIENT, name="put", args=args))
        size += length
        if len(batch) == BATCH_MUTATIONS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _report(progress: Report | None, count: int) -> None:
    if progress:
        progress(count)
