"""The list of figures, and the check that a report is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

__all__ = ["FIGURES", "Figure", "Measured", "Result", "evaluate", "problems"]

ABSOLUTE = "an absolute bound: there is no other side"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report. ``goal_bounds``: the goal limits the ratio to the other side, or the value itself."""

    name: str
    what: str
    unit: str
    goal: float | None = None
    better: Literal["more", "less"] = "more"
    goal_bounds: Literal["ratio", "value"] = "ratio"
    reason: str | None = None
    """Why a column of the row is empty."""


class Measured(msgspec.Struct, frozen=True):
    """One measurement: our value, and the other side's if there is one, in the same unit."""

    value: float
    reference: float | None = None


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


PEER = "the peer, for comparison"

FIGURES: tuple[Figure, ...] = (
    Figure(
        name="append",
        what="durable appends of one event, one thread; beside one plain insert and commit each",
        unit="events/s",
        goal=0.9,
    ),
    Figure(name="peer-append", what="the same by `eventsourcing`", unit="events/s", reason=PEER),
    Figure(
        name="append-32",
        what="durable appends by 32 threads to one log; beside plain single appends",
        unit="events/s",
        goal=2.5,
    ),
    Figure(
        name="append-100",
        what="events committed 100 at a time; beside 100 plain inserts in one transaction",
        unit="events/s",
        goal=1.3,
    ),
    Figure(
        name="mutate",
        what="mutations applied to a document, one commit each; beside plain single appends",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="value-2k",
        what="mutations that put a value of 1.5 KB, one commit each; beside plain inserts of the same bytes",
        unit="events/s",
        goal=0.4,
    ),
    Figure(name="value-4k", what="the same with 4 KB", unit="events/s", goal=0.4),
    Figure(name="value-16k", what="the same with 16 KB", unit="events/s", goal=0.4),
    Figure(
        name="value-files",
        what="files of a store of values of 1.5 KB",
        unit="files",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="value-bytes",
        what="index and blobs of a mutation that puts 4 KB; beside the value compressed",
        unit="bytes",
        goal=1.15,
        better="less",
    ),
    Figure(
        name="read",
        what="reading 100,000 entries of one event, decoded; beside plain rows of the same six facts, undecoded",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="read-100",
        what="the same where 100 events were committed at a time",
        unit="events/s",
        goal=0.6,
    ),
    Figure(
        name="read-bare",
        what="as `read`; beside plain rows of version and data alone, undecoded",
        unit="events/s",
        reason="`read` beside rows that say less than an entry",
    ),
    Figure(
        name="read-decoded",
        what="as `read`; beside a plain select that decodes its JSON",
        unit="events/s",
        reason="`read` beside one who needs the data",
    ),
    Figure(name="peer-read", what="the same by `eventsourcing`, which decodes nothing", unit="events/s", reason=PEER),
    Figure(
        name="load",
        what="a state from 10,000 mutations without a snapshot; beside plain select, `json.loads` and fold",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="load-msgspec",
        what="as `load`; beside plain select and fold with the fastest decoder",
        unit="ms",
        better="less",
        reason="`load` beside a stricter other side",
    ),
    Figure(
        name="load-snapshot",
        what="the same state from its snapshot",
        unit="ms",
        goal=1,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="state-at",
        what="the state at a random one of 100,000 versions; beside the latest",
        unit="ms",
        goal=3,
        better="less",
    ),
    Figure(
        name="open-million",
        what="opening a document of 1,000,000 keys, to its state",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="lookup-million",
        what="looking up a random key of 1,000,000, no chunk in memory",
        unit="ms",
        goal=2,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="commit-million",
        what="chunks read by a commit to a document of 1,000,000 keys that was just opened",
        unit="chunks",
        goal=10,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="diff-million",
        what="comparing two versions of 1,000,000 keys that differ in 10, no chunk in memory",
        unit="ms",
        goal=20,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="edit",
        what="written to index and blobs when one of 200 items of 50 KB changes; beside 1.1 × it compressed + 2 KB",
        unit="bytes",
        goal=1,
        better="less",
    ),
    Figure(
        name="push-batches",
        what="mutations into one document of a server, by 8 clients that push 50 at a time; beside a bare echo",
        unit="mutations/s",
        goal=1000,
        goal_bounds="value",
    ),
    Figure(
        name="push-singles",
        what="pushes of one mutation over 1,000 documents of a server; beside a bare echo",
        unit="pushes/s",
        goal=300,
        goal_bounds="value",
    ),
    Figure(
        name="hear-median",
        what="from a client's mutation until another client has it, over a server: half are quicker",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="hear-slow",
        what="the same: 99 of 100 are quicker",
        unit="ms",
        goal=250,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="idle-sockets",
        what="memory of a server for 1,000 live connections that hear nothing, above the server without them",
        unit="MB",
        goal=150,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="client-calls",
        what="conditional puts of 500 bytes by 16 threads to a DynamoDB of canned answers; beside boto3",
        unit="calls/s",
        goal=3,
    ),
    Figure(
        name="client-commit",
        what="CPU of an append by one of 16 threads there, beyond encoding its event; beside a bare put by boto3",
        unit="ms",
        goal=0.4,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="emulator-calls",
        what="conditional puts of 500 bytes by 16 threads to DynamoDB's emulator; beside boto3",
        unit="calls/s",
        goal=1,
    ),
    Figure(
        name="shared-lone",
        what="durable appends of one event where no other process writes; beside one lock in place of the turnstile",
        unit="events/s",
        goal=0.97,
    ),
    Figure(
        name="shared-seldom",
        what="a commit beside a process that commits without pause: 99 of 100 are quicker; beside a lone writer's",
        unit="ms",
        goal=50,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-fairness",
        what="two processes that commit to one document without pause: commits of the one beside the other's",
        unit="times",
        goal=2,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-eight",
        what="a commit of eight processes that offer 12/s each: 99 of 100 are quicker; beside a lone writer's",
        unit="ms",
        goal=300,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="shared-stopped",
        what="the slowest commit beside a process stopped inside its turn; beside 99 of 100 of a lone writer's",
        unit="ms",
        goal=250,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-lone",
        what="commits of a lone busy writer at a hosted index, simulated; beside the same without turns",
        unit="commits/s",
        goal=0.97,
    ),
    Figure(
        name="hosted-units",
        what="write units of its commit, reads included; beside the same without turns",
        unit="units",
        goal=1.05,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-seldom",
        what="a commit a second beside a busy writer: 99 of 100 are quicker; beside the same without turns",
        unit="round trips",
        goal=20,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-three",
        what="the same beside three busy writers",
        unit="round trips",
        goal=40,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-fairness",
        what="two busy writers: commits of the one beside the other's; beside the same without turns",
        unit="times",
        goal=2,
        better="less",
        goal_bounds="value",
    ),
    Figure(
        name="hosted-crashed",
        what="as `hosted-seldom` where a waiter crashes every 5 s; beside the row without",
        unit="round trips",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="hosted-64",
        what="commits of 64 busy writers that gave up",
        unit="commits",
        goal=0,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-first",
        what="the first request of a server that needs the spreadsheet's engine",
        unit="ms",
        goal=500,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-call",
        what="reading a cell of a warm model in a child process; against the same V8 in the caller's process",
        unit="ms",
        better="less",
        reason="`sheet-call-more` has the goal",
    ),
    Figure(
        name="sheet-call-more",
        what="what that takes more than in the caller's process",
        unit="ms",
        goal=1,
        better="less",
        goal_bounds="value",
        reason=ABSOLUTE,
    ),
    Figure(
        name="sheet-server",
        what="memory of a server that answered for a sheet, without its engines",
        unit="MB",
        better="less",
        reason="a size to know; there is no goal and no other side",
    ),
    Figure(
        name="sheet-engine",
        what="memory of one engine's process with a small model",
        unit="MB",
        better="less",
        reason="a size to know; there is no goal and no other side",
    ),
    Figure(
        name="commit-away",
        what="small commits, index 5 ms away, a snapshot due and the blob store away; beside those where none is due",
        unit="commits/s",
        goal=0.95,
    ),
    Figure(
        name="commit-slow",
        what="a slow commit (99 of 100 are quicker), each 50th begins a snapshot, blobs 30 ms away; beside none",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="poll-backlog",
        what="an empty poll of the SQLite queue, 50,000 messages behind those in flight; beside 2,500",
        unit="ms",
        goal=1.5,
        better="less",
    ),
    Figure(
        name="newcomers",
        what="CPU of the first push of a client in a group of its own, after 60,000; beside the first 10,000",
        unit="µs",
        goal=1.5,
        better="less",
    ),
)


def evaluate(figure: Figure, measured: Measured) -> Result:
    """Return the row of ``figure``."""
    ratio = measured.value / measured.reference if measured.reference else None
    compared = ratio if figure.goal_bounds == "ratio" else measured.value
    meets = None if figure.goal is None or compared is None else _reaches(figure, compared)
    return Result(
        name=figure.name,
        value=_rounded(measured.value),
        unit=figure.unit,
        reference=_rounded(measured.reference),
        ratio=_rounded(ratio),
        goal=figure.goal,
        meets=meets,
        reason=figure.reason,
    )


def problems(results: Iterable[Result], wanted: Iterable[str]) -> list[str]:
    """Return the reasons why ``results`` is no complete report on the figures ``wanted``."""
    rows = {result.name: result for result in results}
    missing = [f"no row: {name}" for name in wanted if name not in rows]
    return missing + [
        f"empty without a reason: {row.name}, {column}"
        for row in rows.values()
        for column in ("value", "reference", "ratio", "goal", "meets")
        if getattr(row, column) is None and not row.reason
    ]


def _reaches(figure: Figure, compared: float) -> bool:
    goal = figure.goal or 0
    return compared >= goal if figure.better == "more" else compared <= goal


def _rounded(value: float | None) -> float | None:
    """Round to four digits, since a shared machine cannot reproduce more."""
    return None if value is None else float(f"{value:.4g}")
