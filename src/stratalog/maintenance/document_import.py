"""Import of a document from an export: write its entries into a new log and verify each entry.

Each version must make the changes that the export records, and the last version must have the recorded digest. During
the import the log has the kind ``import`` and is not a document, so no reader finds a partly imported document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from stratalog.clock import new_id
from stratalog.codec import encode, json_reason
from stratalog.documents import Document
from stratalog.documents.commit_builder import commit_of
from stratalog.documents.commits import Commit, Merged
from stratalog.documents.run import Ran, Run
from stratalog.documents.snapshot_schedule import is_snapshot_due
from stratalog.documents.snapshots import load_state, take_snapshot, tree_roots
from stratalog.documents.state import EMPTY_ROOTS, State
from stratalog.documents.values import Values
from stratalog.errors import Corrupt, Invalid, OutcomeUnknown, StratalogError, Unsupported
from stratalog.log import Environment, Event, Log, create_log
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.callbacks import Report
from stratalog.log.commit import commit_once
from stratalog.log.directory import LOGS, directory_put, name_line_put
from stratalog.log.lifecycle import delete_log, fork_log
from stratalog.log.names import name_put, reread_name
from stratalog.maintenance.document_export import FORMAT, FORMAT_VERSION
from stratalog.maintenance.replayed_clock import ReplayedClock
from stratalog.protocol.messages import Mutation, check_payload
from stratalog.protocol.readable import from_plain
from stratalog.store import Store
from stratalog.struct_types import resolved

__all__ = ["import_document"]

UNFINISHED = "import"


def import_document(
    store: Store, organisation: str, name: str, file: BinaryIO, progress: Report | None = None
) -> Document:
    """Create a document from an export, with the same versions, mutations, outcomes, authors, times and content.

    ``file`` must be seekable: the import checks the whole file before it writes anything, and then reads the file
    again. ``progress`` is called after each version. If the hashes cannot be kept, the import starts again, and
    ``progress`` is called again for the first versions.

    Raises Invalid (not an export), Unsupported (an unknown format, or a redacted version), Corrupt (the file is
    damaged), Conflict (the name is in use): no document is created. After OutcomeUnknown the document may exist.
    """
    header = _check(file)
    try:
        _import(store, organisation, name, header, file, progress)
    except _AnotherBody:
        # This store encodes some body differently, for example with other metadata fields, so the hashes cannot be
        # kept. Import the document as another history, whose origin ends with the exported origin.
        renamed = msgspec.structs.replace(header, origin=f"{new_id(store.environment.clock)}/{header.origin}")
        _import(store, organisation, name, renamed, file, progress, same_origin=False)
    return store.document(organisation, name)


def _import(
    store: Store,
    organisation: str,
    name: str,
    header: _Header,
    file: BinaryIO,
    progress: Report | None,
    *,
    same_origin: bool = True,
) -> None:
    clock = ReplayedClock(store.environment.clock)
    environment = Environment(store.environment.index, store.environment.blobs, clock, store.environment.settings)
    importing = _Import(store, environment, clock, organisation, name, same_origin=same_origin)
    try:
        importing.run(header, file, progress)
    except (StratalogError, _AnotherBody, KeyboardInterrupt):
        importing.discard()
        raise


class _AnotherBody(Exception):
    """A version's canonical body differs from the exporting store's, so the import cannot keep the version's hash."""


class _Header(msgspec.Struct, frozen=True):
    head: int
    forked_at: tuple[int, ...]
    created_ms: int
    origin: str
    digest: str


class _Mutation(msgspec.Struct, frozen=True):
    client: str
    id: int
    name: str
    args: Any
    reason: str | None = None
    origin: tuple[str, int] | None = None


class _Change(msgspec.Struct, frozen=True):
    key: str
    before: int
    by: tuple[int, ...]
    value: Any = None
    deleted: bool = False


class _Entry(msgspec.Struct, frozen=True):
    version: int
    created_ms: int
    author: str
    write_id: str
    principal: str
    salt: bytes
    hash: bytes
    mutations: tuple[_Mutation, ...] = ()
    patch: tuple[_Change, ...] = ()
    bindings: tuple[tuple[str, str, str], ...] = ()
    fields_bytes: int | None = None
    merged: Any = None
    event: tuple[str, Any, int] | None = None


def _check(file: BinaryIO) -> _Header:
    """Check the format, the order of the versions and the SHA-256 in the last line, and return the header.

    Raises Invalid, Unsupported, Corrupt.
    """
    file.seek(0)
    total, expected = hashlib.sha256(), 1
    head = _line(first := file.readline())
    if head.get("format") != FORMAT:
        raise Invalid("the file is not an export of a document", format=head.get("format"))
    if head.get("format_version") != FORMAT_VERSION:
        raise Unsupported("the export has an unknown format", format_version=head.get("format_version"))
    total.update(first)
    for raw in file:
        line = _line(raw)
        if "end" in line:
            if (line["end"], line.get("sha256")) != (expected - 1, total.hexdigest()) or file.readline():
                break
            return _header(head, line)
        if "redacted" in line:
            raise Unsupported(
                "an export with a redacted version cannot be imported; export and import the state instead",
                version=line.get("version"),
            )
        if line.get("version") != expected:
            raise Corrupt("an export lacks a version", expected=expected, actual=line.get("version"))
        total.update(raw)
        expected += 1
    raise Corrupt("an export is cut short or was changed", versions=expected - 1)


def _header(first: dict[str, Any], last: dict[str, Any]) -> _Header:
    try:
        header = msgspec.convert({**first, "digest": last.get("digest")}, resolved(_Header))
    except msgspec.ValidationError as exc:
        raise Corrupt("an export's header cannot be decoded", reason=str(exc)) from exc
    if header.head != last["end"]:
        raise Corrupt("an export does not end at the version in its header", head=header.head, end=last["end"])
    return header


def _line(raw: bytes) -> dict[str, Any]:
    try:
        line = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise Corrupt("a line of an export cannot be decoded", reason=json_reason(raw, exc)) from exc
    if not isinstance(line, dict):
        raise Corrupt("a line of an export is not an object")
    return line


def _entries(file: BinaryIO) -> Iterator[_Entry]:
    file.seek(0)
    file.readline()
    for raw in file:
        line = _line(raw)
        if "end" in line:
            return
        try:
            hexadecimal = {field: bytes.fromhex(line[field]) for field in ("salt", "hash")}
            yield msgspec.convert({**line, **hexadecimal}, resolved(_Entry))
        except (KeyError, TypeError, ValueError) as exc:
            raise Corrupt("a version of an export cannot be decoded", version=line["version"], reason=str(exc)) from exc


def _first_ms(file: BinaryIO, default: int) -> int:
    """Return the creation time of the first version, or ``default``. The log must not be younger than this version."""
    return next((entry.created_ms for entry in _entries(file)), default)


class _Import:
    """One import. First writes a fork's ancestors as logs under temporary names, and deletes these logs at the end."""

    def __init__(
        self,
        store: Store,
        environment: Environment,
        clock: ReplayedClock,
        organisation: str,
        name: str,
        *,
        same_origin: bool,
    ) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._organisation = organisation
        self._name = name
        self._same_origin = same_origin
        self._made: list[Log] = []

    def run(self, header: _Header, file: BinaryIO, progress: Report | None) -> None:
        boundaries = [*header.forked_at, None]
        self._clock.say(min(header.created_ms, _first_ms(file, header.created_ms)))
        log = self._remember(
            create_log(
                self._environment,
                self._organisation,
                self._name_at(0, boundaries),
                UNFINISHED,
                origin=header.origin,
            )
        )
        document = Document(log, self._store.rules)
        state = State.at_snapshot(document.chunks, 0, log.hash_at(0), EMPTY_ROOTS)
        level = 0
        for entry in _entries(file):
            while boundaries[level] is not None and state.version == boundaries[level]:
                level += 1
                document, state = self._fork(document, state, self._name_at(level, boundaries), header)
            self._clock.say(entry.created_ms)
            state = self._write(document, state, entry)
            if progress:
                progress(1)
        while boundaries[level] is not None:
            level += 1
            document, state = self._fork(document, state, self._name_at(level, boundaries), header)
        if tree_roots(state).content.digest.hex() != header.digest:
            raise Corrupt("the imported document differs from the export", version=state.version)
        self._publish(document.log)

    def discard(self) -> None:
        """Delete the logs made so far, newest first."""
        self._clock.say(None)  # the sweep counts its grace from the time of deletion, so this must be the real time
        for log in reversed(self._made):
            delete_log(log)

    def _remember(self, log: Log) -> Log:
        self._made.append(log)
        return log

    def _name_at(self, level: int, boundaries: list[Any]) -> str:
        """Return the name of the log at a level of ancestry. The last level is the document itself."""
        return self._name if level == len(boundaries) - 1 else f"{self._name}.ancestor-{level + 1}"

    def _fork(self, document: Document, state: State, name: str, header: _Header) -> tuple[Document, State]:
        """Fork the log of the next level. An export has the creation time of the last level alone."""
        if name == self._name:
            self._clock.say(header.created_ms)
        log = self._remember(fork_log(document.log, name, state.version))
        fork = Document(log, self._store.rules)
        return fork, load_state(log, fork.chunks, state.version)

    def _write(self, document: Document, state: State, entry: _Entry) -> State:
        blob_batch = BlobBatch(document.log.environment)
        values = document.stored_values
        event = Event(*_event(entry)) if entry.event else _commit(state, entry, values, blob_batch).event()
        written = document.log.append(
            event,
            expected=state.version,
            author=entry.author,
            principal=entry.principal,
            write_id=entry.write_id,
            salt=entry.salt,
            blob_batch=blob_batch,
        )
        if self._same_origin and written.hash != entry.hash:
            raise _AnotherBody(entry.version)
        state = state.after([written])
        if is_snapshot_due(document.log, state.version, state.snapshot_version, state.changes):
            return take_snapshot(document.log, state)
        return state

    def _publish(self, log: Log) -> None:
        """Turn the finished log into a document in one commit, then delete its ancestors, whose entries it pins."""
        self._clock.say(None)
        record = reread_name(self._environment.index, log.record)
        done = msgspec.structs.replace(record, kind="document", revision=record.revision + 1)
        lines = [
            directory_put(record.organisation, LOGS, record.name, "document", record.created_ms),
            name_line_put(record.organisation, record.name, "document"),
        ]

        def landed() -> bool:
            return reread_name(self._environment.index, record).kind == "document"

        # From here on the log may be a document that others write to, so `discard` must not delete it.
        self._made.remove(log)
        try:
            commit_once(self._store.environment, [name_put(done), *lines], landed)
        except StratalogError as exc:
            if not isinstance(exc, OutcomeUnknown):
                self._made.append(log)
            raise
        for ancestor in self._made:
            delete_log(ancestor)


def _commit(state: State, entry: _Entry, values: Values, blob_batch: BlobBatch) -> Commit:
    """Build a version's commit as this store builds it. Raises Corrupt if it differs from the exported commit."""
    commit = commit_of(state, _run_of(state, entry), values, blob_batch, _merged(entry))
    ours = [(change.key, change.before, change.by) for change in commit.patch]
    if ours != [(change.key, change.before, change.by) for change in entry.patch]:
        raise Corrupt("a version of an export does not follow from the versions before it", version=entry.version)
    return commit


def _merged(entry: _Entry) -> Merged | None:
    try:
        return None if entry.merged is None else msgspec.convert(from_plain(entry.merged), resolved(Merged))
    except msgspec.ValidationError as exc:
        raise Corrupt("a merge of an export cannot be decoded", version=entry.version, reason=str(exc)) from exc


def _event(entry: _Entry) -> tuple[str, Any, int]:
    kind, data, schema = entry.event or ("", None, 1)
    return kind, from_plain(data), schema


def _run_of(state: State, entry: _Entry) -> Run:
    """Return the run of an exported version's mutations, as if they had just been executed."""
    changes = {change.key: None if change.deleted else encode(from_plain(change.value)) for change in entry.patch}
    touched: list[dict[str, bytes | None]] = [
        {change.key: changes[change.key] for change in entry.patch if position in change.by}
        for position in range(len(entry.mutations))
    ]
    ran = [_ran(mutation, own) for mutation, own in zip(entry.mutations, touched, strict=True)]
    fields_bytes = state.fields_bytes if entry.fields_bytes is None else entry.fields_bytes
    return Run([], ran, list(entry.bindings), changes, fields_bytes)


def _ran(exported: _Mutation, changes: dict[str, bytes | None]) -> Ran:
    args = from_plain(exported.args)
    encoded = encode(args)
    mutation = Mutation(client=exported.client, id=exported.id, name=exported.name, args=args, origin=exported.origin)
    return Ran(mutation, check_payload(encoded), exported.reason, changes)
