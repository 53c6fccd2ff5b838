"""The list of figures, and the check that a report is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

__all__ = ["FIGURES", "Figure", "Measured", "Result", "evaluate", "problems", "unmeasured"]

ABSOLUTE = "an absolute limit: there is no reference"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report. ``goal_bounds`` says what the goal limits: our value, or its ratio to the reference."""

    name: str
    what: str
    unit: str
    goal: float | None = None
    goal_quick: float | msgspec.UnsetType | None = msgspec.UNSET
    """The goal on a quick disk (see `media`) if it differs; None if there is no goal on a quick disk."""

    better: Literal["more", "less"] = "more"
    goal_bounds: Literal["ratio", "value"] = "ratio"
    reason: str | None = None
    """The reason why a column of the row is empty, perhaps only on a quick disk."""

    on_disk: bool = False
    """Whether the row depends on the disk. Then it is measured twice: on the disk at hand and in memory."""


class Measured(msgspec.Struct, frozen=True):
    """One measurement: our value, and in the same unit the value of the reference, if the row has a reference."""

    value: float
    reference: float | None = None
    above_us: float | None = None
    """The microseconds that an operation takes longer than the reference.

    None if unknown. Also None if ``value`` and ``reference`` are rates, since `evaluate` then computes the difference.
    """


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A row as written to JSON."""

    name: str
    value: float | None
    unit: str
    reference: float | None
    ratio: float | None
    goal: float | None
    meets: bool | None
    reason: str | None = None
    medium: str | None = None
    """Where a row that depends on the disk was measured: ``disk``, the disk at hand, or ``memory``."""

    above_us: float | None = None


PEER = "the peer, for comparison"
MARKS = "no goal in ms: writers take turns as on DynamoDB, where `hosted-seldom` has a goal in round trips"
CLIENTS_SHARE = "no goal: the clients use the same cores as the server"
WITHOUT_WAITS = "no goal on a quick disk: commits that share a wait for the disk gain little there"

FIGURES: tuple[Figure, ...] = (
    Figure(
        name="append",
        what="durable appends of one event by one thread; reference: plain inserts, one commit each",
        unit="events/s",
        goal=0.9,
        goal_quick=0.85,
        on_disk=True,
    ),
    Figure(name="peer-append", what="the same appends by `eventsourcing`", unit="events/s", reason=PEER, on_disk=True),
    Figure(
        name="append-32",
        what="durable appends by 32 threads to one log; reference: plain single appends",
        unit="events/s",
        goal=2.5,
        goal_quick=None,
        reason=WITHOUT_WAITS,
        on_disk=True,
    ),
    Figure(
        name="append-100",
        what="events committed 100 at a time; reference: 100 plain inserts in one transaction",
        unit="events/s",
        goal=1.3,
        goal_quick=None,
        reason=WITHOUT_WAITS,
        on_disk=True,
    ),
    Figure(
        name="mutate",
        what="mutations of a document, one commit each; reference: plain single appends",
        unit="events/s",
        goal=0.6,
        goal_quick=0.55,
        on_disk=True,
    ),
    Figure(
        name="postgres-append",
        what="durable appends to PostgreSQL by one thread; reference: plain inserts by psycopg, one commit each",
        unit="events/s",
        goal=0.9,
    ),
    Figure(
        name="postgres-peer-append",
        what="the same appends to PostgreSQL by `eventsourcing`",
        unit="events/s",
        reason=PEER,
    ),
    Figure(
        name="postgres-append-32",
        what="durable appends to PostgreSQL by 32 threads to one log; reference: plain single inserts by psycopg",
        unit="events/s",
        goal=15,
    ),
    Figure(
        name="postgres-mutate",
        what="mutations of a document in PostgreSQL, one commit each; reference: plain single inserts by psycopg",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="postgres-standby-append",
        what="as `postgres-append`, with a synchronous standby that applies each commit 3 ms later",
        unit="events/s",
        goal=0.9,
    ),
    Figure(
        name="postgres-standby-append-32",
        what="as `postgres-append-32`, with the same standby",
        unit="events/s",
        goal=15,
    ),
    Figure(
        name="postgres-standby-mutate",
        what="as `postgres-mutate`, with the same standby",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="postgres-seldom",
        what="99th percentile of 20 commits a second to PostgreSQL, next to a busy process; reference: without it",
        unit="ms",
        better="less",
        reason=MARKS,
    ),
    Figure(
        name="postgres-fairness",
        what="ratio of the commits of two processes that commit to one document in PostgreSQL without pause",
        unit="times",
        goal=2,
        better="less",
        goal_bounds="value",
    ),
    *(
        Figure(
            name=f"value-{name}",
            what=f"mutations that put a text of {size}, one commit each; reference: plain inserts of the same bytes",
            unit="events/s",
            goal=goal,
            reason=None if goal else "`mutate` has the goal for small values",
            on_disk=True,
        )
        for name, size, goal in (
            ("100", "100 bytes", None),
            ("2k", "1.5 KB", 0.5),
            ("4k", "4 KB", 0.5),
            ("16k", "16 KB", 0.5),
            ("64k", "64 KB", 0.5),
        )
    ),
    Figure(
        name="value-files",
        what="files of a store with 200 values of 1.5 KB, in a full run",
        unit="files",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="value-bytes",
        what="bytes in index and blobs of a mutation that puts 4 KB; reference: the compressed value",
        unit="bytes",
        goal=1.15,
        better="less",
    ),
    Figure(
        name="read",
        what="100,000 entries of one event, read and decoded; reference: undecoded plain rows of the same six columns",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="read-100",
        what="like `read`, with 100 events in each entry",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="read-bare",
        what="like `read`; reference: undecoded plain rows with only version and data",
        unit="events/s",
        reason="`read` with another reference: its rows contain less than an entry",
    ),
    Figure(
        name="read-decoded",
        what="like `read`; reference: a plain select that decodes its JSON",
        unit="events/s",
        reason="`read` with another reference: a reader that decodes",
    ),
    Figure(name="peer-read", what="the same reads by `eventsourcing`, undecoded", unit="events/s", reason=PEER),
    Figure(
        name="load",
        what="a state from 10,000 mutations without a snapshot; reference: plain select, `json.loads` and fold",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="load-msgspec",
        what="like `load`; reference: plain select and fold with the fastest decoder",
        unit="ms",
        better="less",
        reason="`load` with a faster reference",
    ),
    Figure(
        name="load-snapshot",
        what="the state of `load` from its snapshot",
        unit="ms",
        goal=1,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="state-at",
        what="the state at a random version of 100,000; reference: the latest state",
        unit="ms",
        goal=3,
        better="less",
    ),
    Figure(
        name="open-million",
        what="opening a document of 1,000,000 keys and its state",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="lookup-million",
        what="lookup of a random key of 1,000,000, with no chunk in memory",
        unit="ms",
        goal=2,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="commit-million",
        what="chunks read by the first commit to a newly opened document of 1,000,000 keys",
        unit="chunks",
        goal=10,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="diff-million",
        what="diff of two versions of 1,000,000 keys that differ in 10, with no chunk in memory",
        unit="ms",
        goal=20,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="edit",
        what="bytes written for a change of one of 200 items of 50 KB; reference: 1.1 × the compressed item + 2 KB",
        unit="bytes",
        goal=1,
        better="less",
    ),
    Figure(
        name="push-batches",
        what="mutations of one document on a server, by 8 clients that push 50 at a time; reference: a bare echo",
        unit="mutations/s",
        goal=1000,
        goal_bounds="value",
    ),
    Figure(
        name="push-singles",
        what="pushes of one mutation to 1,000 documents on a server; reference: a bare echo",
        unit="pushes/s",
        goal=300,
        goal_bounds="value",
    ),
    Figure(
        name="push-processes",
        what="as `push-singles`, on a server of two processes; reference: on a server of one process",
        unit="pushes/s",
        reason=CLIENTS_SHARE,
    ),
    Figure(
        name="push-together",
        what="pushes of eight clients to one document on a server of two processes; reference: of one process",
        unit="pushes/s",
        reason=CLIENTS_SHARE,
    ),
    Figure(
        name="hear-median",
        what="median delay from a client's mutation to another client's state, through a server",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="hear-slow",
        what="like `hear-median`, but the 99th percentile",
        unit="ms",
        goal=250,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="idle-sockets",
        what="additional memory of a server for 1,000 live connections without messages",
        unit="MB",
        goal=150,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="client-calls",
        what="conditional puts of 500 bytes by 16 threads to canned DynamoDB responses; reference: boto3",
        unit="calls/s",
        goal=3,
    ),
    Figure(
        name="client-commit",
        what="CPU of an append by 16 threads with canned responses, less that of encoding an event; reference: boto3",
        unit="ms",
        goal=0.4,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="emulator-calls",
        what="conditional puts of 500 bytes by 16 threads to DynamoDB's emulator; reference: boto3",
        unit="calls/s",
        goal=1,
    ),
    Figure(
        name="shared-lone",
        what="durable appends while no other process writes; reference: the same with one lock file, without turns",
        unit="events/s",
        goal=0.97,
        on_disk=True,
    ),
    Figure(
        name="shared-seldom",
        what="99th percentile of 20 commits a second, next to a busy process; reference: without it",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-fairness",
        what="ratio of the commits of two processes that commit to one document without pause",
        unit="times",
        goal=2,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-eight",
        what="99th percentile of commits of eight processes that offer 12/s each; reference: a lone writer's",
        unit="ms",
        goal=300,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-stopped",
        what="slowest commit next to a process stopped inside its turn; reference: 99th percentile of a lone writer",
        unit="ms",
        goal=250,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-lone",
        what="commits of a lone busy writer at a simulated hosted index; reference: the same without turns",
        unit="commits/s",
        goal=0.97,
    ),
    Figure(
        name="hosted-units",
        what="cost of a lone busy writer's commit and its reads, in write units; reference: the same without turns",
        unit="units",
        goal=1.05,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-seldom",
        what="99th percentile of a writer's one commit a second, next to a busy writer; reference: without turns",
        unit="round trips",
        goal=20,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-three",
        what="like `hosted-seldom`, next to three busy writers",
        unit="round trips",
        goal=40,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-document",
        what="as `hosted-seldom`, but the writers mutate a document",
        unit="round trips",
        goal=30,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-fairness",
        what="ratio of the commits of two busy writers; reference: the same without turns",
        unit="times",
        goal=2,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-crashed",
        what="like `hosted-seldom`, with a waiter that crashes every 5 s; reference: `hosted-seldom`",
        unit="round trips",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="hosted-64",
        what="commits of 64 busy writers that failed after their last retry",
        unit="commits",
        goal=0,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-first",
        what="a server's first request that needs the spreadsheet's engine",
        unit="ms",
        goal=500,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-call",
        what="reading a cell of a warm model in a child process; reference: the same V8 in the caller's process",
        unit="ms",
        better="less",
        reason="`sheet-call-more` has the goal",
    ),
    Figure(
        name="sheet-call-more",
        what="additional time of `sheet-call`, compared with the caller's process",
        unit="ms",
        goal=1,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-server",
        what="memory of a server that answered a request for a sheet, without its engines",
        unit="MB",
        better="less",
        reason="for information: no goal and no reference",
    ),
    Figure(
        name="sheet-engine",
        what="memory of one engine's process with a small model",
        unit="MB",
        better="less",
        reason="for information: no goal and no reference",
    ),
    Figure(
        name="commit-away",
        what="small commits, index 5 ms away, snapshot due, blob store unavailable; reference: no snapshot due",
        unit="commits/s",
        goal=0.95,
    ),
    Figure(
        name="commit-slow",
        what="99th percentile of commits, each 50th begins a snapshot, blobs 30 ms away; reference: no snapshots",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="poll-backlog",
        what="an empty poll of the SQLite queue, with 50,000 messages behind those in flight; reference: 2,500",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="cold-start",
        what="CPU of a new process until it can process a queue message on AWS; reference: boto3's clients alone",
        unit="ms",
        goal=0.5,
        better="less",
    ),
    Figure(
        name="cold-push",
        what="push of 20 changes, document of 200,000 keys, no chunk in memory, S3 15 ms away; reference: single gets",
        unit="ms",
        goal=0.3,
        better="less",
    ),
    Figure(
        name="cold-push-cached",
        what="the same push on a machine whose cache has the chunks; reference: without the cache",
        unit="ms",
        goal=0.5,
        better="less",
    ),
    Figure(
        name="newcomers",
        what="CPU of a new client's first push in a new group, after 60,000 others; reference: the first 10,000",
        unit="µs",
        goal=1.5,
        better="less",
    ),
)


def evaluate(figure: Figure, measured: Measured, medium: str | None = None, *, quick: bool = False) -> Result:
    """Return the row of ``figure``, with the goal for a quick disk or for another disk."""
    ratio = measured.value / measured.reference if measured.reference else None
    compared = ratio if figure.goal_bounds == "ratio" else measured.value
    goal = figure.goal_quick if quick and not isinstance(figure.goal_quick, msgspec.UnsetType) else figure.goal
    return Result(
        name=figure.name,
        value=_rounded(measured.value),
        unit=figure.unit,
        reference=_rounded(measured.reference),
        ratio=_rounded(ratio),
        goal=goal,
        meets=None if goal is None or compared is None else _reaches(figure, compared, goal),
        reason=figure.reason,
        medium=medium,
        above_us=_rounded(_above_us(figure, measured)),
    )


def unmeasured(figure: Figure, medium: str, reason: str) -> Result:
    """Return the row of a figure that cannot be measured in ``medium``, with the reason."""
    empty = dict.fromkeys(("value", "reference", "ratio", "meets"))
    return Result(name=figure.name, unit=figure.unit, goal=figure.goal, reason=reason, medium=medium, **empty)


def problems(results: Iterable[Result], wanted: Iterable[str]) -> list[str]:
    """Return the reasons why ``results`` is no complete report on the figures ``wanted``."""
    rows = list(results)
    names = {row.name for row in rows}
    missing = [f"no row: {name}" for name in wanted if name not in names]
    return missing + [
        f"empty without a reason: {row.name}, {column}"
        for row in rows
        for column in ("value", "reference", "ratio", "goal", "meets")
        if getattr(row, column) is None and not row.reason
    ]


def _above_us(figure: Figure, measured: Measured) -> float | None:
    """Return `Measured.above_us`. If it is None and the figure is a rate on a disk, compute it from both rates."""
    if measured.above_us is not None or measured.reference is None or not figure.on_disk:
        return measured.above_us
    return 1e6 / measured.value - 1e6 / measured.reference if figure.unit.endswith("/s") else None


def _reaches(figure: Figure, compared: float, goal: float) -> bool:
    return compared >= goal if figure.better == "more" else compared <= goal


def _rounded(value: float | None) -> float | None:
    """Round to four digits, since a shared machine cannot reproduce more digits."""
    return None if value is None else float(f"{value:.4g}")
