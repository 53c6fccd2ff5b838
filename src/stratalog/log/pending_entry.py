"""A pending entry: an entry to be written, from the append call until the outcome is known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from stratalog.clock import Clock, id_from
from stratalog.codec import encode
from stratalog.errors import KeyReused, NotFound, OutcomeUnknown, Redacted
from stratalog.group_commit import Latch
from stratalog.keys import check_version
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.chain import SALT_BYTES, body_digest, link
from stratalog.log.entries import (
    Entry,
    Event,
    check_author,
    check_principal,
    check_write_id,
    encode_events,
    inline_body,
)
from stratalog.log.environment import Environment
from stratalog.log.prepared_snapshot import PreparedSnapshot
from stratalog.ports.index import NO_BLOBS

__all__ = ["FORGOTTEN", "PendingEntry", "draw_ids", "prepare_entry", "same_request"]

WRITE_ID_CHARACTERS = 16
DRAWN_BYTES = SALT_BYTES + WRITE_ID_CHARACTERS
FORGOTTEN = "the version of an append was forgotten"
"""The message of OutcomeUnknown if the version in doubt was forgotten before the append could read it."""


class PendingEntry:
    """An entry to be written. After the append it also has the outcome: the committed entry or an error.

    ``write_id``, ``salt`` and ``digest`` are empty until the leader of the commit calls `draw_ids`.
    """

    # Class attributes, since most entries never set them: creating an instance is then faster.
    error: BaseException | None = None
    latch: Latch | None = None
    is_leader: bool | None = None
    named = False
    snapshot: PreparedSnapshot | None = None
    write_id: str = ""
    salt: bytes = b""
    digest: bytes = b""

    def __init__(
        self,
        events: Sequence[Event],
        body: bytes,
        attributes: dict[str, Any],
        expected: int | None,
        blob_batch: BlobBatch | None,
        author: str,
        principal: str,
    ) -> None:
        self.events = tuple(events)
        self.body = body
        self.attributes = attributes
        self.expected = expected
        self.blob_batch = blob_batch
        self.blobs = NO_BLOBS if blob_batch is None else blob_batch.blobs
        self.author = author
        self.principal = principal
        self.body_hash = sha256(body).digest()
        self.in_doubt: list[tuple[str, int]] = []
        self.entry: Entry | None = None

    @property
    def settled(self) -> bool:
        """Whether the outcome is known."""
        return (self.entry or self.error) is not None

    @property
    def blob_bytes(self) -> int:
        """The bytes of the entry's blobs that the commit itself stores."""
        return 0 if self.blob_batch is None else self.blob_batch.held_bytes

    def hash_after(self, before: bytes, version: int, created_ms: int) -> bytes:
        """Return the hash of this entry as ``version``, after an entry whose hash is ``before``."""
        return link(before, version, created_ms, self.principal, self.author, self.write_id, self.digest)

    def entry_at(self, version: int, created_ms: int, hash: bytes) -> Entry:
        """Return the entry that results from a commit as ``version``."""
        return Entry(version, created_ms, self.author, self.write_id, self.events, self.principal, hash, self.salt)

    def settle(self, entry: Entry) -> None:
        """Record the commit as ``entry``. Raises OutcomeUnknown if the blobs could not be renewed."""
        if self.blob_batch is not None:
            self.blob_batch.renew()
        self.entry = entry

    def settle_by(self, stored: Entry, log: str) -> None:
        """Settle by the stored entry of ``log`` that has this write id. The entry may belong to another request."""
        if stored.redacted and stored.principal == self.attributes.get("p", ""):
            self.error = Redacted("the write id belongs to a redacted version", log=log, version=stored.version)
        elif not same_request(stored, self):
            text = "the write id was used for another write"
            self.error = KeyReused(text, log=log, version=stored.version, write_id=self.write_id)
        else:
            self.settle(stored)

    def refresh(self) -> bool:
        """Before the commit is sent, put aged blobs again, and the parts that a deleted snapshot no longer protects.

        Return whether blobs were put. Raises Unavailable: nothing is committed.
        """
        assert self.blob_batch is not None, "only an entry with blobs is refreshed"
        is_put = self.snapshot is not None and self.snapshot.write_unprotected()
        is_put = self.blob_batch.refresh() or is_put
        self.blobs = self.blob_batch.blobs
        return is_put

    def fail(self, cause: BaseException) -> None:
        """Record that the append failed with ``cause``.

        If the log was deleted while the entry was in doubt, the outcome stays unknown: the error is OutcomeUnknown.
        """
        self.error = cause
        if isinstance(cause, NotFound) and self.in_doubt:
            self.error = OutcomeUnknown(
                "the log was deleted before the outcome of an append was known", write_id=self.write_id
            )
            self.error.__cause__ = cause
        if self.blob_batch is not None and isinstance(self.error, OutcomeUnknown):
            with suppress(OutcomeUnknown):
                self.blob_batch.renew()

    def answer(self) -> Entry:
        """Return the committed entry, or raise the append's error."""
        if self.entry is None:
            raise self.error or OutcomeUnknown("an append ended without an outcome", write_id=self.write_id)
        return self.entry


def prepare_entry(
    environment: Environment,
    owner: str,
    events: Sequence[Event],
    *,
    expected: int | None = None,
    author: str = "",
    principal: str = "",
    write_id: str | None = None,
    salt: bytes | None = None,
    blob_batch: BlobBatch | None = None,
    snapshot: PreparedSnapshot | None = None,
    checked: bool = False,
) -> PendingEntry:
    """Check and encode an entry. A large body goes to the blobs of ``owner``.

    `draw_ids` must follow before the entry is planned.
    """
    if snapshot is not None:
        blob_batch = snapshot.blob_batch
    # The leader of a group commit compares this number. An error there would end the calls of other threads.
    if expected is not None:
        check_version(expected)
    attributes: dict[str, Any] = {"w": None if write_id is None else check_write_id(write_id), "s": salt}
    if author:
        attributes["a"] = check_author(author)
    if principal:
        attributes["p"] = check_principal(principal)
    body = encode_events(events, checked=checked)
    name, stored = inline_body(body)
    if len(stored) <= environment.settings.body_inline_bytes_max:
        attributes[name] = stored
    else:
        blob_batch = blob_batch or BlobBatch(environment)
        attributes["x"] = encode(blob_batch.write(f"{owner}/bodies", body))
    pending = PendingEntry(events, body, attributes, expected, blob_batch, author, principal)
    if write_id is not None:
        pending.named = True
    if snapshot is not None:
        pending.snapshot = snapshot
    return pending


def draw_ids(clock: Clock, batch: Sequence[PendingEntry]) -> None:
    """Draw the salts and the write ids that the callers have not chosen, by one call for random bytes.

    Each call enters the kernel and gives the interpreter to another thread. With a call for each entry, each thread
    would wait for the interpreter once more. The bytes are drawn for these entries only. Bytes that were kept for later
    entries would be used twice, by a process and its fork or by two machines resumed from one image.

    An entry that has its digest keeps its ids. The digest is set last, since the next leader repeats an interrupted
    call.
    """
    drawn, end = clock.random_bytes(DRAWN_BYTES * len(batch)), 0
    for pending in batch:
        start, middle, end = end, end + SALT_BYTES, end + DRAWN_BYTES
        if pending.digest:
            continue
        attributes = pending.attributes
        if attributes["s"] is None:
            attributes["s"] = drawn[start:middle]
        if attributes["w"] is None:
            attributes["w"] = id_from(drawn[middle:end])
        pending.salt, pending.write_id = attributes["s"], attributes["w"]
        pending.digest = body_digest(pending.salt, pending.body_hash)


def same_request(stored: Entry, asked: PendingEntry) -> bool:
    """Return whether ``stored``, read without upcasters, fulfils ``asked``: the same events of the same principal.

    The time and the author's display name are not compared: a retry may come later, and a person may be renamed.
    """
    return stored.principal == asked.attributes.get("p", "") and encode(stored.events) == asked.body
