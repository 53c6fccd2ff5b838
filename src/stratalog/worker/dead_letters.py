"""Dead letters: failed messages and mutations, with the reasons. An operator can list, edit and redrive dead letters.

There are two kinds of dead letters:

- A message that the queue moved aside. A redrive pushes the message's mutations under their original numbers. If the
  client has sent a mutation again meanwhile, the mutation is not applied twice.
- A mutation that was rejected for an unexpected exception of its mutator, or by a worker after its last attempt. This
  rejection is committed under the mutation's number. So a redrive runs a new mutation of an operator's client. The new
  mutation names the original mutation as its origin.

However often a letter is redriven, none of its mutations is applied twice. A number is bound to its arguments, so a
mutation with edited arguments is a separate letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import Any

import msgspec

from stratalog.codec import canonical, decode, encode
from stratalog.documents import Document
from stratalog.documents.rejections import RejectedMutation, read_rejection, require_intact_letter, write_rejection
from stratalog.errors import Corrupt, Invalid, NotFound, StratalogError, Unsupported
from stratalog.keys import REJECTED_PARTITION
from stratalog.log.listed_items import ListedItem, list_items
from stratalog.ports.queue import DeadMessage
from stratalog.protocol.messages import Mutation, Outcome, check_payload, payload_hash
from stratalog.store import Store
from stratalog.worker.attempt_record import AttemptRecord, read_attempts, write_attempts
from stratalog.worker.execution import WORKER_REJECTION, apply, require_application
from stratalog.worker.messages import open_push, read_message

__all__ = ["RejectedPush", "edit_letter", "list_letters", "redrive", "redrive_all", "redrive_each"]

OPERATOR = "redrive"
UNKNOWN = "the worker ended without a report"
Redriven = tuple[str, list[Outcome] | StratalogError]
"""A letter with the outcomes of its redrive, or with its error."""


class RejectedPush(msgspec.Struct, frozen=True):
    """A dead letter in a listing. ``document`` is empty if the message cannot be read.

    For a message, which may contain many mutations, ``client`` is empty and ``mutation`` is 0.
    """

    id: str
    organisation: str
    document: str
    client: str
    mutation: int
    dead_ms: int
    receives: int
    reason: str
    redriven_ms: int
    edited: bool = False
    """Whether the letter's arguments differ from the arguments of the rejected mutation."""


def list_letters(store: Store, *, after: str = "") -> Iterator[RejectedPush]:
    """Yield all dead letters after the id ``after``, in order of ids. The reason of a damaged letter is its damage."""
    messages = (_of_message(store, letter) for letter in store.queue.dead_letters(after=after.partition("/")[0]))
    rejections = map(_of_item, list_items(store.environment.index, REJECTED_PARTITION, after=after or None))
    return merge(messages, rejections, key=lambda letter: letter.id)


def redrive(store: Store, letter: str) -> list[Outcome]:
    """Run the mutations of a dead letter again; return their outcomes. After a crash, another call resumes.

    Raises NotFound if the letter or its document does not exist, or if the mutation of the letter was not rejected.
    Raises the errors of `open_push` and `Document.apply`. Raises Corrupt, and runs no mutation, if the letter is
    damaged or its arguments were changed. Raises Unsupported, and runs no mutation, if this process lacks a mutator of
    the letter.
    """
    if "/" in letter:
        return [_redrive_rejection(store, letter)]
    message = next((candidate for candidate in store.queue.dead_letters() if candidate.id == letter), None)
    if message is None:
        raise NotFound("dead letter not found", letter=letter)
    return _redrive_message(store, message)


def redrive_each(store: Store, letters: Iterable[str]) -> Iterator[Redriven]:
    """Redrive these letters in order. Yield each with its outcomes, or with the error of `redrive`."""
    return ((letter, _result(partial(redrive, store, letter))) for letter in letters)


def redrive_all(store: Store) -> Iterator[Redriven]:
    """Redrive all present letters in order of ids, as `redrive_each` does. Lists the queue's dead letters only once.

    Yields Corrupt for a letter with a damaged key.
    """
    # Collect the ids first: a redriven mutation that is rejected for a fault again becomes a new letter.
    listed = [(letter.sort, letter.fault) for letter in list_items(store.environment.index, REJECTED_PARTITION)]
    messages = ((message.id, partial(_redrive_message, store, message)) for message in store.queue.dead_letters())
    rejections = ((id, partial(_redrive_listed, store, id, fault)) for id, fault in listed)
    for id, run in merge(messages, rejections, key=itemgetter(0)):
        yield id, _result(run)


def edit_letter(store: Store, letter: str, args: Any) -> str:
    """Make a letter that runs a rejected mutation with other arguments; return its id. A redrive of the letter runs it.

    The same arguments make the same letter, and the mutation's original arguments give the original letter. Raises
    NotFound and Corrupt as `redrive` does, Invalid for the letter of a message and for invalid arguments, and
    LimitExceeded.
    """
    if "/" not in letter:
        raise Invalid("only the letter of a single mutation can be edited", letter=letter)
    original = "/".join(letter.split("/")[:2])
    rejection = _rejection(store, original)
    document = _document(store, rejection.organisation, rejection.document, rejection.incarnation)
    name, before = _as_it_came(document, rejection)
    edited = check_payload(encode(canonical(args, "argument")))
    if edited == encode(before):
        return original
    id = f"{original}/{payload_hash(name, edited).hex()}"
    if not _is_intact(store, id):
        new = msgspec.structs.replace(rejection, args=edited, redriven_ms=0)
        write_rejection(store.environment.index, id, new)
    return id


def _result(run: Callable[[], list[Outcome]]) -> list[Outcome] | StratalogError:
    try:
        return run()
    except StratalogError as exc:
        return exc


def _redrive_listed(store: Store, letter: str, fault: str) -> list[Outcome]:
    if fault:
        raise Corrupt(fault, letter=letter)
    return redrive(store, letter)


def _redrive_message(store: Store, letter: DeadMessage) -> list[Outcome]:
    envelope = read_message(letter.body)
    document = _document(store, envelope.organisation, envelope.document, envelope.incarnation)
    queued = open_push(store.environment.blobs, envelope)
    require_application(document, [queued])
    outcomes = apply(document, queued)
    redriven = msgspec.structs.replace(_attempts(store, letter), redriven_ms=store.environment.clock.wall_ms())
    write_attempts(store.environment.index, letter.id, redriven)
    return outcomes


def _redrive_rejection(store: Store, letter: str) -> Outcome:
    rejection = _rejection(store, letter)
    document = _document(store, rejection.organisation, rejection.document, rejection.incarnation)
    name, args = _as_it_came(document, rejection)
    edited = letter.split("/")[2:]
    if edited != ([payload_hash(name, rejection.args).hex()] if rejection.args else []):
        raise Corrupt("a dead letter's arguments do not have the hash in its id", letter=letter)
    if rejection.args:
        args = decode(rejection.args)
    if name not in document.rules.mutators:
        # The redrive would commit "no such mutator" for good, under a number that no later redrive can use again.
        raise Unsupported("this process lacks the mutator of the letter", document=document.name, mutator=name)
    origin = (rejection.client, rejection.id)
    again = Mutation(client=f"{OPERATOR}/{letter}", id=1, name=name, args=args, origin=origin)
    outcome = document.apply([again], author=OPERATOR, admitted=True)[0]
    redriven = msgspec.structs.replace(rejection, redriven_ms=store.environment.clock.wall_ms())
    write_rejection(store.environment.index, letter, redriven)
    return outcome


def _rejection(store: Store, letter: str) -> RejectedMutation:
    """Return the rejected mutation of a letter. Raises NotFound, and Corrupt if the letter is damaged."""
    item = store.environment.index.get(REJECTED_PARTITION, letter)
    if item is None:
        raise NotFound("dead letter not found", letter=letter)
    rejection = read_rejection(item)
    require_intact_letter(letter, rejection)
    return rejection


def _is_intact(store: Store, letter: str) -> bool:
    """Return whether the letter exists and is not damaged."""
    try:
        _rejection(store, letter)
    except (NotFound, Corrupt):
        return False
    return True


def _as_it_came(document: Document, rejection: RejectedMutation) -> tuple[str, Any]:
    """Return the original name and arguments of a rejected mutation, from the log.

    Raises NotFound if the mutation had another outcome.
    """
    origin = (rejection.client, rejection.id)
    version = document.applied_in(*origin) or 0
    for committed in document.versions(version - 1, version) if version else ():
        for mutation in committed.mutations:
            if (mutation.client, mutation.id) == origin and _is_of(rejection, mutation.reason or ""):
                return mutation.name, mutation.args
    raise NotFound("the mutation was not rejected", client=rejection.client, id=rejection.id)


def _is_of(rejection: RejectedMutation, reason: str) -> bool:
    """Return whether a committed rejection with ``reason`` belongs to the letter ``rejection``.

    Two workers may have counted the failures differently, so only the beginning of a worker's reason is compared.
    """
    if rejection.receives:
        return reason.startswith(WORKER_REJECTION)
    return reason == rejection.reason


def _document(store: Store, organisation: str, name: str, incarnation: str) -> Document:
    document = store.document(organisation, name)
    if document.log.record.incarnation != incarnation:
        raise NotFound("the letter's document was deleted, and its name was reused", document=name)
    return document


def _of_message(store: Store, letter: DeadMessage) -> RejectedPush:
    attempts = _attempts(store, letter)
    try:
        envelope = read_message(letter.body)
        names = (envelope.organisation, envelope.document)
    except StratalogError:
        names = ("", "")
    reason = attempts.reason or UNKNOWN
    return RejectedPush(letter.id, *names, "", 0, letter.dead_ms, letter.receives, reason, attempts.redriven_ms)


def _attempts(store: Store, letter: DeadMessage) -> AttemptRecord:
    """Return the attempt record of a letter; an empty record if the stored one is damaged."""
    try:
        return read_attempts(store.environment.index, letter.id)
    except Corrupt:
        return AttemptRecord()


def _of_item(listed: ListedItem) -> RejectedPush:
    try:
        if listed.item is None:
            raise Corrupt(listed.fault)
        rejection = read_rejection(listed.item)
    except Corrupt as exc:
        return RejectedPush(listed.sort, "", "", "", 0, 0, 0, f"the letter is damaged: {exc}", 0)
    names = (rejection.organisation, rejection.document, rejection.client, rejection.id)
    state = (rejection.rejected_ms, rejection.receives, rejection.reason, rejection.redriven_ms)
    return RejectedPush(listed.sort, *names, *state, edited=bool(rejection.args))
