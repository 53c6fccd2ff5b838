"""Push: the mutations of a group's clients, applied to a document in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from stratalog.documents import Document, Rules
from stratalog.errors import (
    Closed,
    Corrupt,
    Invalid,
    LimitExceeded,
    OutcomeUnknown,
    QueueFull,
    QuotaExceeded,
    StratalogError,
    Unavailable,
    Unsupported,
)
from stratalog.limits import INTEGER_MAX, MUTATIONS_PER_BATCH_MAX
from stratalog.protocol import Draft, Rejected
from stratalog.protocol.messages import UNSTORABLE, Mutation, Outcome, check_identity, check_unreserved
from stratalog.protocol.sync import Push, Pushed

__all__ = ["check_push", "denies_commit", "push", "refusal", "reject"]

Apply = Callable[[Sequence[Mutation]], list[Outcome]]
Refuse = Callable[[Mutation, str], Outcome]

# After these errors a client sends the whole push again. After another error it may give the mutations new numbers.
_REPEATED = (Unavailable, QuotaExceeded, OutcomeUnknown, Corrupt, Closed)


def push(document: Document, request: Push, owner: str = "", author: str = "", *, admitted: bool = False) -> Pushed:
    """Apply a push, in batches; return the outcome of each mutation, in order.

    A mutation that no entry can contain is committed as a rejection, so that the mutation does not block its client for
    ever. A client's first mutation binds the client to the group and to ``owner``. The document refuses clients of a
    group with another owner. If the push names another origin than the document's, every outcome is "unknown-client".
    ``admitted`` means that the push was acknowledged earlier, so no quota refuses the push.

    Raises the errors of `check_push`, and then applies nothing. Also raises the errors of `Document.apply`. If
    `denies_commit` is true of the raised error, this call has committed nothing. A call that has committed some of the
    mutations before such an error raises OutcomeUnknown instead. After any other error, the first mutations of the push
    may have been committed: send the whole push again.
    """
    request = check_push(request)
    refused = refusal(document, request)
    if refused is not None:
        return refused
    outcomes: list[Outcome] = []
    apply = partial(document.apply, group=request.group, owner=owner, author=author, admitted=admitted)
    refuse = partial(reject, document, group=request.group, owner=owner, author=author, admitted=admitted)
    try:
        for start in range(0, len(request.mutations), MUTATIONS_PER_BATCH_MAX):
            batch = request.mutations[start : start + MUTATIONS_PER_BATCH_MAX]
            _apply(outcomes, apply, refuse, batch)
    except StratalogError as exc:
        # A mutation that this call has committed has a version. One that was committed earlier is "seen".
        if denies_commit(exc) and any(outcome.version is not None for outcome in outcomes):
            raise OutcomeUnknown(f"the first mutations of the push were committed, but {exc.message}") from exc
        raise
    return Pushed(outcomes)


def denies_commit(error: StratalogError) -> bool:
    """Return whether a client concludes from an error of a push that no mutation of the push was committed."""
    return isinstance(error, QueueFull) or not isinstance(error, _REPEATED)


def check_push(request: Push) -> Push:
    """Check a push of a client, and return it without the origins of its mutations, which no client may send.

    Raises Invalid or LimitExceeded for an invalid group, client or number. Raises ReservedName for names that only the
    store itself may use.
    """
    check_identity(request.group, "group")
    return msgspec.structs.replace(request, mutations=[_checked(mutation) for mutation in request.mutations])


def refusal(document: Document, request: Push) -> Pushed | None:
    """Return the result of a push that names another origin than the document's; None for any other push."""
    if request.origin not in ("", document.origin):
        sent = request.mutations
        return Pushed([Outcome(client=mutation.client, id=mutation.id, status="unknown-client") for mutation in sent])
    return None


def _checked(mutation: Mutation) -> Mutation:
    """Check the client, number and name of a mutation, and return the mutation without an origin."""
    check_identity(mutation.client, "client")
    if type(mutation.id) is not int or not 1 <= mutation.id <= INTEGER_MAX:
        raise Invalid(
            f"the id of a pushed mutation must be an integer from 1 to {INTEGER_MAX}",
            client=mutation.client,
            value=mutation.id,
        )
    check_unreserved(mutation)
    return mutation if mutation.origin is None else msgspec.structs.replace(mutation, origin=None)


def reject(
    document: Document,
    mutation: Mutation,
    reason: str,
    *,
    group: str,
    owner: str = "",
    author: str = "",
    admitted: bool = False,
) -> Outcome:
    """Commit a mutation as rejected for ``reason``, without running it, if its number is next; return its outcome.

    Use this function for a mutation that no entry can contain, or that fails at every try. Otherwise the mutation would
    block its client.
    """

    def refuse(draft: Draft, args: Any) -> None:
        raise Rejected(reason)

    rules = Rules({mutation.name: refuse}, document.rules.metadata_fields)
    rejecting = Document(document.log, rules)
    return rejecting.apply([mutation], group=group, owner=owner, author=author, admitted=admitted)[0]


def _apply(outcomes: list[Outcome], apply: Apply, refuse: Refuse, batch: Sequence[Mutation]) -> None:
    """Apply a batch as one entry, or as several entries if one entry cannot contain the batch.

    Add the outcomes of each entry to ``outcomes``, also before an error.
    """
    try:
        outcomes += apply(batch)
        return
    except Unsupported:
        # The stored data is newer than this program: the mutations are not at fault.
        raise
    except (Invalid, LimitExceeded) as exc:
        if len(batch) == 1:
            empty = Mutation(client=batch[0].client, id=batch[0].id, name=UNSTORABLE)
            outcomes.append(refuse(empty, str(exc)))
            return
    middle = len(batch) // 2
    for half in (batch[:middle], batch[middle:]):
        _apply(outcomes, apply, refuse, half)
