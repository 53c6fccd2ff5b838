"""A shop on Stratalog: its own mutators, events in a log, versioned records, a projection and maintenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_type

import stratalog

__all__ = ["Report", "read_report", "run"]

Report = dict[str, int]


class FixedClock:
    """A user's clock, which has the methods of the protocol `stratalog.Clock`, but does not inherit from that class."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def random(self) -> float:
        return 0.5

    def random_bytes(self, count: int) -> bytes:
        self.now_ms += 1
        return self.now_ms.to_bytes(8, "big") * (count // 8) + b"\0" * (count % 8)


def sell(draft: stratalog.Draft, args: Any) -> None:
    """Take items out of stock. Rejects the mutation if the stock has fewer items."""
    stock = draft.get(args["key"], 0)
    if stock < args["count"]:
        raise stratalog.Rejected("out of stock")
    draft.put(args["key"], stock - args["count"])


def oldest_needed(document: stratalog.Document) -> int:
    """The shop never forgets how its stock changed."""
    return 0 if document.name == "stock" else document.version


MUTATORS: Mapping[str, Callable[[stratalog.Draft, Any], None]] = {**stratalog.BUILT_IN_MUTATORS, "sell": sell}


def run(url: str) -> Report:
    """Run all parts of the shop on the store at ``url``, and return their numbers."""
    clock: stratalog.Clock = FixedClock()
    meter = stratalog.Meter()
    settings = stratalog.Settings(log={"snapshot_entries_interval": 10})
    numbers = assert_type(settings.over("log", stratalog.LogSettings()), stratalog.LogSettings)
    rules = stratalog.Rules(MUTATORS, oldest_needed=oldest_needed)
    with stratalog.open(url, rules=rules, settings=numbers, clock=clock, meter=meter) as store:
        report: Report = {"version": len(stratalog.__version__)}
        report |= sell_from(store)
        report |= follow_orders(store)
        report |= retain_images(store)
        report |= maintain(store)
    report["requests"] = int(meter.total("requests"))
    return report


def sell_from(store: stratalog.Store) -> Report:
    """Change a document, read an older version, try a change in a fork, and merge the fork."""
    stock = assert_type(store.document("acme", "stock", create=True), stratalog.Document)
    outcome = assert_type(stock.put("apples", 10, client="ada"), stratalog.Outcome)
    stock.mutate("sell", {"key": "apples", "count": 3}, client="ada")
    batch = [stratalog.Mutation(client="bob", name="sell", args={"key": "apples", "count": 99}, id=1)]
    rejections = [outcome for outcome in stock.apply(batch) if outcome.status == "rejected"]
    view = assert_type(stock.at(outcome.version), stratalog.View)
    fork = stock.fork("trial")
    fork.increment("apples", 5)
    trial = assert_type(stratalog.replay(fork, stock), stratalog.ReplayReport)
    merged = stratalog.merge(fork, stock)
    changes: list[stratalog.Replayed] = list(merged)
    reads = read_past(stock)
    secret = stock.put("note", "secret").version
    stock.delete("note")
    assert secret is not None
    redacted = assert_type(stratalog.redact(stock, secret), list[int])
    verified = stratalog.verify(stock)
    return {
        "apples": stock["apples"],
        "apples at first": view["apples"],
        "rejected": len(rejections),
        "tried": trial.applied,
        "merged": len(changes),
        "redacted": len(redacted),
        "verified": verified.version,
        **reads,
    }


def read_past(stock: stratalog.Document) -> Report:
    """Return how often a number changed, what differs from the first version, and how many mutations there were."""
    changes: list[stratalog.KeyChange] = list(stock.history("apples"))
    differences: list[stratalog.Difference] = list(stock.diff(1, stock.version))
    versions: list[stratalog.Version] = list(stock.versions())
    mutations: list[stratalog.Applied] = [each for version in versions for each in version.mutations]
    return {
        "changes": len(changes),
        "apples before": differences[0].before,
        "authors": len({version.author for version in versions}),
        "mutations": len(mutations),
    }


def rename_total(data: Any) -> Any:
    """Convert an order of schema 1 to schema 2."""
    return {"cents": data["total"]}


UPCASTERS: stratalog.Upcasters = {("order", 1): rename_total}


def follow_orders(store: stratalog.Store) -> Report:
    """Append an event to the shop's own log, save an app snapshot, and run a projection."""
    log = assert_type(store.create_log("acme", "orders", "shop", upcasters=UPCASTERS), stratalog.Log)
    entry = assert_type(log.append(stratalog.Event("order", {"total": 250})), stratalog.Entry)
    log.save_snapshot(entry.version, [b"250"])
    saved: stratalog.AppSnapshot | None = log.app_snapshot(entry.version)
    nothing = assert_type(log.prepare_snapshot([b"0"]), stratalog.PreparedSnapshot)
    log.append(stratalog.Event("order", {"total": 0}), expected=entry.version, snapshot=nothing)
    totals: list[int] = []

    def add(entry: stratalog.Entry) -> list[Any]:
        totals.extend(event.data["cents"] for event in entry.events)
        return []

    checkpoint = stratalog.Projection(log, "totals", add).catch_up()
    entries = assert_type(log.above_floor(lambda floor: list(log.read(floor))), list[stratalog.Entry])
    return {
        "cents": sum(totals),
        "checkpoint": checkpoint,
        "saved": 0 if saved is None else saved.version,
        "kept": len(entries),
    }


def retain_images(store: stratalog.Store) -> Report:
    """Store one body, then several bodies in one call, and record a failure of their source."""
    records = assert_type(store.records("acme"), stratalog.Records)
    version = assert_type(records.put("images/apple", b"red"), stratalog.RecordVersion)
    bodies = [stratalog.NewBody(id=f"images/{name}", body=name.encode()) for name in ("pear", "plum")]
    stored: list[stratalog.Stored] = list(records.put_many(bodies))
    record = assert_type(records.get("images/apple"), stratalog.Record)
    letter = assert_type(records.fail("images/fig", "no such file"), stratalog.DeadLetter)
    return {
        "images": version.version + len(stored),
        "bytes": len(record.body),
        "failures": letter.failures,
    }


def maintain(store: stratalog.Store) -> Report:
    """Run maintenance, with a retention of a year for documents."""
    policy = stratalog.MaintenancePolicy(documents=stratalog.RetentionPolicy(retain_days=365))
    return read_report(stratalog.maintain(store, policy))


def read_report(report: stratalog.MaintenanceReport) -> Report:
    """Return the numbers of a maintenance report that the shop shows."""
    return {"logs": report.logs, "failed": len(report.failures)}
