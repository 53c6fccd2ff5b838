"""Dead letters: pushes that the queue moved aside, why they failed, and how they are tried once more.

A letter's mutations are first pushed again under their own numbers: what their client sent again meanwhile was applied
then and is not applied twice. What a worker gave up is committed as a rejection under its number, so that its client
went on; that alone is run under an operator's client, which names the origin. Both may be repeated without effect.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.assembly import Store
from stratalog.documents import Document
from stratalog.errors import NotFound, StratalogError
from stratalog.ports.queue import DeadLetter
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.server.applying import GIVEN_UP, apply
from stratalog.server.notes import read_note, write_note
from stratalog.server.queued import Carried, open_push, read_message

__all__ = ["Listed", "list_letters", "redrive"]

OPERATOR = "redrive"
UNKNOWN = "its worker ended without a word"


class Listed(msgspec.Struct, frozen=True):
    """A dead letter as people are shown it. ``document`` is empty where the message cannot be read."""

    id: str
    organisation: str
    document: str
    dead_ms: int
    receives: int
    reason: str
    redriven_ms: int


def list_letters(store: Store, *, after: str = "") -> Iterator[Listed]:
    """The dead letters, oldest first, those after the id ``after``."""
    for letter in store.queue.dead_letters(after=after):
        note = read_note(store.place.index, letter.id)
        organisation, document = _names(letter)
        yield Listed(
            letter.id, organisation, document, letter.dead_ms, letter.receives, note.reason or UNKNOWN, note.redriven_ms
        )


def redrive(store: Store, letter: DeadLetter, author: str = "") -> list[Outcome]:
    """Run a dead letter's mutations once more; what became of each. May be repeated, and gone on with after a crash.

    Raises NotFound where the document of the letter is gone, Corrupt, and what `Document.apply` raises.
    """
    envelope = read_message(letter.body)
    document = store.document(envelope.organisation, envelope.document)
    if document.log.record.incarnation != envelope.incarnation:
        raise NotFound("the letter's document is gone; another has its name", document=envelope.document)
    queued = open_push(store.place.blobs, envelope)
    outcomes = apply(document, queued)
    pairs = enumerate(zip(queued.mutations, outcomes, strict=True), 1)
    told = [_again(document, letter, place, one, outcome, author) for place, (one, outcome) in pairs]
    note = msgspec.structs.replace(read_note(store.place.index, letter.id), redriven_ms=store.place.clock.wall_ms())
    write_note(store.place.index, letter.id, note)
    return told


def _again(document: Document, letter: DeadLetter, place: int, one: Carried, outcome: Outcome, author: str) -> Outcome:
    """What became of a mutation, after one more run under the operator's client where a worker had given it up."""
    if outcome.status != "seen" or not _was_given_up(document, one):
        return outcome
    operators = Mutation(
        client=f"{OPERATOR}/{letter.id}/{place}", id=1, name=one.name, args=one.args, origin=(one.client, one.id)
    )
    return document.apply([operators], author=author)[0]


def _was_given_up(document: Document, one: Carried) -> bool:
    """Whether the mutation stands as a rejection that a worker decided on. Not, where its version is forgotten."""
    try:
        version = document.applied_in(one.client, one.id)
    except NotFound:
        return False
    if version is None:
        return False
    for found in document.versions(version - 1, version):
        for mutation in found.mutations:
            if (mutation.client, mutation.id) == (one.client, one.id):
                return (mutation.reason or "").startswith(GIVEN_UP)
    return False


def _names(letter: DeadLetter) -> tuple[str, str]:
    try:
        envelope = read_message(letter.body)
    except StratalogError:
        return "", ""
    return envelope.organisation, envelope.document
