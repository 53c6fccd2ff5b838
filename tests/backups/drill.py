"""The drill backs up a store during writes, restores the store, and checks that no acknowledged write is lost.

    python -m tests.backups.drill --rounds 20 --seed 1

In each round, writers write to a store while the command line backs up the store. The drill kills some writers and some
backups. Then the command line restores the newest backup, a random backup, and the state at a random time. Each restore
fills a new store, which the command line then verifies. A restored backup must have every write that the store
acknowledged before the backup began. Each log or record in a restored backup must be a prefix of the log or record in
the store. The state at a time must have every write up to that time, and no later version. With ``--aws`` the stores
are on DynamoDB and S3, and the backups are in S3:

    python -m stratalog.testing.aws_local python -m tests.backups.drill --aws --rounds 2 --seconds 30
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

import stratalog
from stratalog.codec import sha256
from tests.backups.writers import ORGANISATION, SETTINGS, Acknowledged, Task, read_acknowledged
from tests.processes import COMMAND_LINE, ChildProcess, run, start

__all__ = ["DrillResult", "content_of", "main", "record_fault", "run_drill"]

WRITERS = 3
SECONDS = 6.0
KILL_SHARE = 0.3
COMMAND_SECONDS_MAX = 300
SHOWN_MAX = 10


class DrillResult(msgspec.Struct):
    """The counts of the drill's actions and comparisons, and its findings."""

    counts: Counter[str]
    wrong: list[str]


class Homes(msgspec.Struct, frozen=True):
    """The URLs of a round's stores, and the URL of its backups."""

    store: Callable[[str], str]
    backups: str


def run_drill(rounds: int, seed: int, *, seconds: float = SECONDS, aws: bool = False) -> DrillResult:
    """Run ``rounds`` rounds. The seed of the first round is ``seed``, and each next round adds one."""
    drill = DrillResult(Counter(), [])
    for number in range(rounds):
        with TemporaryDirectory(prefix="stratalog-drill-") as folder:
            homes = _aws_homes(f"drill-{seed + number}") if aws else _folders(Path(folder))
            _Round(Path(folder), homes, seed + number, seconds, drill).run()
        drill.counts["rounds"] += 1
    return drill


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.backups.drill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="the seconds for which the writers of a round write"
    )
    parser.add_argument("--aws", action="store_true", help="use the AWS services that the environment names")
    options = parser.parse_args(arguments)
    drill = run_drill(options.rounds, options.seed, seconds=options.seconds, aws=options.aws)
    for name, count in sorted(drill.counts.items()):
        print(f"{name:<40} {count:>12,}")
    print("\n".join(drill.wrong[:SHOWN_MAX]) or "nothing was wrong")
    return 1 if drill.wrong else 0


class _Round:
    def __init__(self, folder: Path, homes: Homes, seed: int, seconds: float, drill: DrillResult) -> None:
        self._records_folder = folder / "notes"
        self._records_folder.mkdir()
        self._homes = homes
        self._seed = seed
        self._seconds = seconds
        self._drill = drill
        self._chance = Random(seed)
        self._url = homes.store("source")

    def run(self) -> None:
        _stratalog("init", self._url)
        self._write_and_back_up()
        self._back_up(killed=False)
        backups = [
            json.loads(line) for line in _stratalog("backup", "list", self._homes.backups, "--json").splitlines()
        ]
        self._drill.counts["backups"] += len(backups)
        noted = list(read_acknowledged(self._records_folder))
        self._drill.counts["acknowledged"] += len(noted)
        for name, backup in (("newest", backups[-1]), ("older", self._chance.choice(backups))):
            _stratalog("backup", "verify", self._homes.backups, "--backup", backup["id"])
            self._restore(name, ["--backup", backup["id"]])
            before = [record for record in noted if record.at_ms < backup["started_ms"]]
            self._check(name, before, until_ms=None)
        moment_ms = self._chance.choice(noted).created_ms
        time_text = datetime.fromtimestamp(moment_ms / 1000, tz=UTC).isoformat()
        self._restore("cut", ["--time", time_text])
        self._check("cut", [record for record in noted if record.created_ms <= moment_ms], until_ms=moment_ms)

    def _write_and_back_up(self) -> None:
        until = time.monotonic() + self._seconds
        with ExitStack() as stack:
            writers = [stack.enter_context(self._writer(number, until)) for number in range(WRITERS)]
            self._back_up(killed=False)  # on a busy machine this may be the only backup during the writes
            while time.monotonic() < until:
                self._back_up(killed=self._chance.random() < KILL_SHARE)
                if self._chance.random() < KILL_SHARE and time.monotonic() < until - 1:
                    number = self._chance.randrange(WRITERS)
                    writers[number].signal(signal.SIGKILL)
                    writers[number] = stack.enter_context(self._writer(len(writers) + number, until))
                    self._drill.counts["writers killed"] += 1
            for writer in writers:
                writer.end(0, self._seconds + COMMAND_SECONDS_MAX)

    def _writer(self, number: int, until: float) -> ChildProcess:
        records_path = self._records_folder / f"{number}-{time.monotonic_ns()}.jsonl"
        seed = self._chance.randrange(2**20)
        task = Task(self._url, str(records_path), seed, max(0.1, until - time.monotonic()))
        return start([sys.executable, "-m", "tests.backups.writers", msgspec.json.encode(task).decode()])

    def _back_up(self, *, killed: bool) -> None:
        with start([*COMMAND_LINE, "backup", self._homes.backups, "--store", self._url]) as backup:
            if killed:
                time.sleep(0.5 + self._chance.random())
                backup.signal(signal.SIGKILL)
            backup.end(None if killed else 0, COMMAND_SECONDS_MAX)
            # A short backup may have ended before the signal.
            self._drill.counts["backups killed"] += backup.status == -signal.SIGKILL

    def _restore(self, name: str, options: list[str]) -> None:
        target = self._homes.store(name)
        _stratalog("restore", self._homes.backups, "--store", target, *options)
        _stratalog("verify", "--store", target)
        self._drill.counts[f"restored: {name}"] += 1

    def _check(self, name: str, wanted: Iterable[Acknowledged], until_ms: int | None) -> None:
        """Check that the restored store has every wanted version. Then check each log and record against the source."""
        with stratalog.open(self._homes.store(name), settings=SETTINGS) as restored:
            for record in wanted:
                self._drill.counts["versions compared"] += 1
                if (fact := content_of(restored, record)) != record.fact:
                    self._drill.wrong.append(f"seed {self._seed}, {name}: {record} is {fact}")
            with stratalog.open(self._url, settings=SETTINGS) as source:
                for line in restored.list(ORGANISATION):
                    self._check_log(name, source, restored.log(ORGANISATION, line.id), until_ms)
                for line in restored.records(ORGANISATION).list():
                    self._drill.counts["records compared"] += 1
                    if fault := record_fault(source, restored, line.id, until_ms):
                        self._drill.wrong.append(f"seed {self._seed}, {name}: record {line.id} {fault}")

    def _check_log(self, name: str, source: stratalog.Store, log: stratalog.Log, until_ms: int | None) -> None:
        """Check that the log is a prefix of the source's log. With a time, check that the log ends at that time."""
        head = log.head()
        original = source.log(ORGANISATION, log.record.name)
        if original.hash_at(head.version) != head.hash:
            self._drill.wrong.append(f"seed {self._seed}, {name}: {log.record.name} is no beginning of its source")
        if until_ms is not None and head.version != original.version_at(until_ms):
            self._drill.wrong.append(f"seed {self._seed}, {name}: {log.record.name} ends at {head.version}")


def record_fault(source: stratalog.Store, restored: stratalog.Store, id: str, until_ms: int | None) -> str:
    """Return the fault of a restored record, or an empty text.

    A record without a fault is a prefix of the source's record. If a time is given, the record ends at that time.
    """
    *_, last = restored.records(ORGANISATION).versions(id)
    versions = [*source.records(ORGANISATION).versions(id)]
    if last not in versions:
        return "is no beginning of its source"
    if until_ms is not None and [last] != [version for version in versions if version.created_ms <= until_ms][-1:]:
        return f"ends at {last.version}"
    return ""


def content_of(store: stratalog.Store, acknowledged: Acknowledged) -> str:
    """Return the fact of the acknowledged version in the store, or the error's text if the store lacks the version."""
    try:
        if acknowledged.kind == "log":
            return store.log(ORGANISATION, acknowledged.name).entry(acknowledged.version).hash.hex()
        if acknowledged.kind == "record":
            return sha256(store.records(ORGANISATION).get(acknowledged.name, acknowledged.version).body).hex()
        value = store.document(ORGANISATION, acknowledged.name).at(acknowledged.version).get(acknowledged.key)
        return sha256(value.encode()).hex()
    except stratalog.NotFound as exc:
        return str(exc)


def _folders(folder: Path) -> Homes:
    return Homes(lambda name: str(folder / name), str(folder / "backups"))


def _aws_homes(name: str) -> Homes:
    """Return URLs of AWS stores for a round. One more AWS store gives the bucket for the backups."""
    from stratalog.homes import make_store

    make_store(f"aws://{name}-backups")
    return Homes(lambda store: f"aws://{name}-{store}", f"s3://{name}-backups/drill")


def _stratalog(*arguments: str) -> str:
    return run([*COMMAND_LINE, *arguments], seconds=COMMAND_SECONDS_MAX).stdout


if __name__ == "__main__":
    sys.exit(main())
