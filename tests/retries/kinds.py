"""The kinds of keys that make a retry safe. Each kind has a first use, honest retries, and hostile uses."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from stratalog.codec import canonical, encode
from stratalog.documents import Document, merge
from stratalog.documents.rejections import RejectedMutation, write_rejection
from stratalog.errors import KeyReused, MergeConflict
from stratalog.keys import entries_partition
from stratalog.log import Event, Log
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.document_import import import_document
from stratalog.ports.index import Delete
from stratalog.protocol import Mutation, Outcome
from stratalog.protocol.sync import Push
from stratalog.records import NewBody, Records
from stratalog.store import Store
from stratalog.sync.push import push, reject
from stratalog.testing.clock import ManualClock
from stratalog.worker.dead_letters import edit_letter, redrive
from stratalog.worker.execution import WORKER_REJECTION

__all__ = ["KINDS", "Check", "Kind", "Used"]

SMALL = (1, 10)


class Used:
    """One key in use: its store, further handles on that store, the clock, and the random numbers of the run."""

    def __init__(self, store: Store, clock: ManualClock, draw: Random, number: int) -> None:
        self.store = store
        self.clock = clock
        self.draw = draw
        self.name = f"n{number}"

    def other(self) -> Store:
        """Let up to 10,000 seconds pass, and return a new handle on the store, as another process would."""
        self.clock.sleep(self.draw.choice((0, 1, 100, 10_000)))
        return Store(self.store.environment, self.store.queue, self.store.rules)

    def value(self, depth: int = 3, sizes: Sequence[int] = (1, 10, 3000)) -> Any:
        """Return a random value: null, a boolean, a number, text, bytes, or a list or object of values.

        ``sizes`` are the lengths of texts and bytes. The longest value may be too large for an inline body.
        """
        draw = self.draw
        if depth and draw.random() < 0.5:
            names = draw.sample("abcdefgh", draw.randrange(4))
            inner = [self.value(depth - 1, sizes) for _ in names]
            return dict(zip(names, inner, strict=True)) if draw.random() < 0.6 else inner
        large = "x" * draw.choice(sizes)
        return draw.choice((None, True, draw.randrange(-5, 100), 2.5, large, large.encode(), f"é{draw.random()}"))

    def again(self, value: Any) -> Any:
        """Return an equal value in another form: with another order of keys, tuples, floats or other types of bytes."""
        draw = self.draw
        if isinstance(value, dict):
            names = draw.sample(list(value), len(value))
            return {name: self.again(value[name]) for name in names}
        if isinstance(value, list):
            return draw.choice((list, tuple))(map(self.again, value))
        if type(value) is int:
            return draw.choice((int, float))(value)
        if isinstance(value, bytes):
            return draw.choice((bytes, bytearray, memoryview))(value)
        return value

    def different(self, value: Any) -> Any:
        """Return a small value whose canonical encoding differs from the encoding of ``value``."""
        while encode(canonical(other := self.value(1, SMALL))) == encode(canonical(value)):
            pass
        return other


Check = Callable[[], bool]
Kind = Callable[[Used], tuple[Check, Check]]
"""Uses a key and returns two checks. Each check returns True if the store behaves correctly.

The first check makes an honest retry, which the store must recognise. The second check makes a hostile use, which the
store must refuse.
"""


def append(used: Used) -> tuple[Check, Check]:
    """Append to a log, expecting its current version. Other appends may come before and after."""
    draw, log = used.draw, used.store.create_log("acme", used.name)
    values = [used.value() for _ in range(draw.randrange(1, 4))]
    _others(log, draw)
    before = log.head().version
    log.append([Event("e", value) for value in values], expected=before, write_id="W", author="Ada")
    _others(log, draw)
    head = log.head().version

    def use(events: list[Event]) -> int:
        opened = used.other().log("acme", used.name)
        return opened.append(events, expected=before, write_id="W", author=draw.choice(("Ada", "Ada L"))).version

    def forged() -> list[Event]:
        events = [Event("e", used.again(value)) for value in values]
        position = draw.randrange(len(events))
        changed = (
            [*events, events[0]],
            [*events[:position], Event("f", values[position]), *events[position + 1 :]],
            [*events[:position], Event("e", values[position], 2), *events[position + 1 :]],
            [*events[:position], Event("e", used.different(values[position])), *events[position + 1 :]],
        )
        return draw.choice(changed)

    honest = lambda: use([Event("e", used.again(value)) for value in values]) == before + 1  # noqa: E731
    return (
        lambda: honest() and log.head().version == head,
        lambda: _conflicts(lambda: use(forged())) and log.head().version == head,
    )


def put(used: Used) -> tuple[Check, Check]:
    """Put a record by a random kind of put. After a put that expected version 0, a later version may follow."""
    draw = used.draw
    body, metadata, time = draw.randbytes(draw.choice((0, 5, 9000))), {"m": used.value(1, SMALL)}, draw.randrange(10)
    kind = draw.choice(("put", "expected", "newer", "many", "many newer"))
    use = _using(used, kind)
    first = use(body, metadata, time)
    records = used.store.records("acme")
    if kind == "expected" and draw.random() < 0.5:
        records.put(used.name, b"later")
    count = records.stat(used.name).version

    def forge() -> int | None:
        changes = [(body + b"!", metadata, time), (body, {"m": used.different(metadata["m"])}, time)]
        changes += [(body, metadata, time + 20), (body, None, time)]
        return use(*draw.choice(changes))

    return (
        lambda: use(used.again(body), used.again(metadata), time) == first and _latest(used) == count,
        lambda: _conflicts(forge) and _latest(used) == count,
    )


def change(used: Used) -> tuple[Check, Check]:
    """Update, delete or undelete a record. The resulting version is the latest version of the record."""
    records = used.store.records("acme")
    records.put(used.name, b"1")
    operation = used.draw.choice(("update", "delete", "undelete"))
    if operation == "undelete":
        records.delete(used.name)
    first = _changed(records, used.name, operation)
    others = [other for other in ("update", "delete", "undelete", "put", "newer") if other != operation]

    def use(chosen: str) -> int:
        return _changed(used.other().records("acme"), used.name, chosen)

    return (
        lambda: use(operation) == first and _latest(used) == first,
        lambda: _conflicts(lambda: use(used.draw.choice(others))) and _latest(used) == first,
    )


def mutations(used: Used) -> tuple[Check, Check]:
    """Push a client's mutations. A retry sends the last mutations again in other batches, then new mutations."""
    draw, document = used.draw, used.store.create("acme", used.name)
    sent = [_mutation(used, id) for id in range(1, draw.randrange(2, 8))]
    _push_all(used, document, sent)
    version = document.version

    def honest() -> bool:
        start = draw.randrange(len(sent))
        news = [_mutation(used, len(sent) + 1 + extra) for extra in range(draw.randrange(3))]
        again = [msgspec.structs.replace(mutation, args=used.again(mutation.args)) for mutation in sent[start:]]
        statuses = [
            mutation.status for mutation in _push_all(used, used.other().document("acme", used.name), again + news)
        ]
        sent.extend(news)
        known = len(again)
        return set(statuses[:known]) == {"seen"} and not {"seen", "mismatch", "gap"} & set(statuses[known:])

    def hostile() -> bool:
        last = sent[-1]
        forged = msgspec.structs.replace(last, args={"key": "a/k", "value": used.different(last.args["value"])})
        before = document.version
        [outcome] = push(used.other().document("acme", used.name), Push("g", [forged]), "eve").outcomes
        return outcome.status == "mismatch" and document.version == before >= version

    return honest, hostile


def merges(used: Used) -> tuple[Check, Check]:
    """Merge a fork. A retry merges the fork again, perhaps after more mutations, or merges an imported copy."""
    draw, document = used.draw, used.store.create("acme", used.name)
    document.mutate("inc", {"key": "n"}, client="a")
    fork = document.fork(f"{used.name}-fork")
    total = 1

    def grow(handle: Document) -> None:
        nonlocal total
        for _ in range(draw.randrange(1, 4)):
            handle.mutate("inc", {"key": "n", "by": 1}, client="b")
            total += 1

    grow(fork)
    merge(fork, document)

    def honest() -> bool:
        opened = used.other()
        source = opened.document("acme", fork.name)
        if draw.random() < 0.5:
            grow(source)
        # The copy gets no further mutations, since they would make the copy another fork.
        if draw.random() < 0.3:
            file = io.BytesIO()
            export_document(source, file)
            source = import_document(opened, "acme", f"{used.name}-{draw.random()}", file)
        merge(source, opened.document("acme", used.name))
        return bool(opened.document("acme", used.name).get("n") == total)

    def hostile() -> bool:
        rolled_back = document.fork(f"{used.name}-{draw.random()}")
        for _ in range(2):
            rolled_back.mutate("inc", {"key": "m", "by": 1}, client="b")
        merge(rolled_back, document)
        # The fork loses its last entry, which was merged, and then gets another entry at the same version.
        index, record = used.store.environment.index, rolled_back.log.record
        *_, last = index.query(entries_partition(record.prefix, record.segment))
        index.commit([Delete(last.partition, last.sort)])
        opened = used.other()
        again = opened.document("acme", rolled_back.name)
        again.mutate("inc", {"key": "m", "by": draw.choice((1, 5))}, client="b")
        before = document.version
        return _conflicts(lambda: len(merge(again, opened.document("acme", used.name)))) and document.version == before

    return honest, hostile


def redriven(used: Used) -> tuple[Check, Check]:
    """Redrive a dead letter repeatedly. An edit of the letter's arguments makes a separate letter."""
    document = used.store.create("acme", used.name)
    mutation = Mutation(client="c", id=1, name="inc", args={"key": "n", "by": 1})
    reject(document, mutation, f"{WORKER_REJECTION} after 2 failures", group="g")
    letter = f"{used.name}/1"
    names = ("acme", used.name, document.log.record.incarnation, "c", 1)
    write_rejection(used.store.environment.index, letter, RejectedMutation(*names, WORKER_REJECTION, 5, 0))
    redrive(used.store, letter)

    def honest() -> bool:
        [outcome] = redrive(used.other(), letter)
        return outcome.status == "seen" and document.get("n") == 1

    def hostile() -> bool:
        edited = edit_letter(used.other(), letter, {"key": "m", "by": used.draw.randrange(2, 9)})
        redrive(used.other(), edited)
        return edited != letter and document.get("n") == 1

    return honest, hostile


KINDS: dict[str, tuple[Kind, int]] = {
    "append": (append, 6),
    "put": (put, 6),
    "update, delete, undelete": (change, 4),
    "push": (mutations, 6),
    "merge": (merges, 1),
    "redrive": (redriven, 1),
}
"""The function of each kind, and its weight when a run draws a kind."""


def _others(log: Log, draw: Random) -> None:
    for _ in range(draw.randrange(3)):
        log.append(Event("other", 1))


def _conflicts(use: Callable[[], object]) -> bool:
    try:
        use()
    except (KeyReused, MergeConflict):
        return True
    return False


def _latest(used: Used) -> int:
    return used.other().records("acme").stat(used.name).version


def _using(used: Used, kind: str) -> Callable[[Any, Any, int], int | None]:
    """Return a function that makes this kind of put, each time through a new handle."""

    def use(body: Any, metadata: Any, time: int) -> int | None:
        records, id = used.other().records("acme"), used.name
        given: dict[str, Any] = {"metadata": metadata, "write_id": "W"}
        if kind == "newer":
            made = records.put_if_newer(id, body, time, **given)
            return made.version if made else None
        if kind in ("put", "expected"):
            expected = 0 if kind == "expected" else None
            return records.put(id, body, source_time_ms=time, expected=expected, **given).version
        return _through_a_batch(used, records, NewBody(id=id, body=body, source_time_ms=time, **given), kind)

    return use


def _through_a_batch(used: Used, records: Records, body: NewBody, kind: str) -> int | None:
    """Put the body in a new batch, in random order with up to two other bodies."""
    draw = used.draw
    around = [NewBody(id=f"{used.name}-{draw.random()}", body=b"x") for _ in range(draw.randrange(3))]
    bodies = [*around, msgspec.structs.replace(body, newer_only=kind == "many newer")]
    draw.shuffle(bodies)
    [stored] = [version for version in records.put_many(bodies) if version.id == used.name]
    if stored.error is not None:
        raise stored.error
    return stored.version.version if stored.version else None


def _changed(records: Records, id: str, operation: str) -> int:
    if operation == "update":
        return records.update(id, lambda body: str(int(body) + 1).encode(), write_id="W").version
    if operation == "delete":
        return records.delete(id, write_id="W").version
    if operation == "undelete":
        return records.undelete(id, write_id="W").version
    if operation == "newer":
        made = records.put_if_newer(id, b"1", 99, write_id="W")
        return made.version if made else 0
    return records.put(id, b"1", write_id="W").version


def _mutation(used: Used, id: int) -> Mutation:
    """Return a mutation. One mutation in four names an unknown mutator, so that the document rejects it."""
    name = used.draw.choice(("put", "put", "put", "nobody's"))
    args: dict[str, Any] = {"key": f"a/{id}", "value": used.value()}
    return Mutation(client="c", id=id, name=name, args=args)


def _push_all(used: Used, document: Document, sent: Sequence[Mutation]) -> list[Outcome]:
    """Push all mutations in order, in pushes of random size, and return their outcomes."""
    outcomes: list[Outcome] = []
    left = list(sent)
    while left:
        size = used.draw.randrange(1, len(left) + 1)
        outcomes += push(document, Push("g", left[:size]), "eve", used.draw.choice(("Eve", "Eve E"))).outcomes
        del left[:size]
    return outcomes
