"""Make a run without attacks, then a run with attacks. The exit code is 0 if no check failed.

``python -m tests.hostile --seconds 300 --connections 200``
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from tests.hostile.attacks import ATTACKS, SHEET_ATTACKS, Attack, prepare, prepare_sheets
from tests.hostile.checks import Limits, Run, failures_of, percentile
from tests.hostile.honest import Honest, lost_writes
from tests.hostile.server import Served, served, two_cores

__all__ = ["main", "measure"]

UNDISTURBED_SHARE = 0.2
UNDISTURBED_SECONDS_MAX = 60.0
ATTACKED_SECONDS_MAX = 120.0
SHOWN_MAX = 10
Attacks = Sequence[Callable[[Attack], Awaitable[None]]]


async def measure(
    server: Served, honest: Honest, seconds: float, connections: int, requests_per_second: float, attacks: Attacks
) -> Run:
    """Run honest callers and these attacks for ``seconds``, and return the measurements.

    On a busy machine the run is longer, so that each attack is made.
    """
    ready = asyncio.Semaphore(0)
    listening = [asyncio.create_task(honest.listen(server.port, number, ready)) for number in range(connections)]
    for _ in range(connections):
        await ready.acquire()
    made = {attack.__name__: Attack(server.port) for attack in attacks}
    attacking = [asyncio.ensure_future(attack(made[attack.__name__])) for attack in attacks]
    until = time.monotonic() + seconds
    asking = asyncio.create_task(honest.ask(server.port, requests_per_second, until))
    resident_bytes_peak, latest = 0, until + ATTACKED_SECONDS_MAX

    def is_over() -> bool:
        return asking.done() and (all(attack.sent for attack in made.values()) or time.monotonic() > latest)

    while server.is_running and not is_over():
        resident_bytes_peak = max(resident_bytes_peak, server.resident_bytes)
        await asyncio.sleep(0.25)
    for task in (*attacking, *listening, asking):
        task.cancel()
    results = await asyncio.gather(*attacking, *listening, asking, return_exceptions=True)
    failed = [f"{result!r}" for result in results if isinstance(result, Exception)]
    return Run(
        requests=len(honest.seconds),
        p50_ms=percentile(honest.seconds, 0.5) * 1000,
        p99_ms=percentile(honest.seconds, 0.99) * 1000,
        health_p99_ms=percentile(honest.health_seconds, 0.99) * 1000,
        health_longest_ms=max(honest.health_seconds, default=0) * 1000,
        errors=(*honest.errors, *failed),
        resident_bytes_peak=resident_bytes_peak,
        log_bytes=server.log_bytes,
        pokes=honest.pokes,
        attacks={name: attack.sent for name, attack in made.items()},
        is_running=server.is_running,
    )


async def _both(server: Served, arguments: argparse.Namespace) -> tuple[Run, Run, Honest]:
    attacks = (*ATTACKS, *(SHEET_ATTACKS if arguments.sheets else ()))
    first = Honest(label="undisturbed")
    await first.prepare(server.port)
    await prepare(server.port)
    if arguments.sheets:
        await prepare_sheets(server.port)
    second = Honest(label="disturbed", acknowledged=first.acknowledged)
    seconds = min(UNDISTURBED_SECONDS_MAX, arguments.seconds * UNDISTURBED_SHARE)
    given = (arguments.connections, arguments.requests)
    undisturbed = await measure(server, first, seconds, *given, ())
    return undisturbed, await measure(server, second, arguments.seconds, *given, attacks), second


def main(arguments: Sequence[str] | None = None) -> int:
    """Make both runs, print a table of the measurements, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="duration of the run with attacks")
    parser.add_argument("--connections", type=int, default=200, help="live connections of honest callers")
    parser.add_argument("--requests", type=float, default=50, help="requests of honest callers per second")
    parser.add_argument("--no-sheets", dest="sheets", action="store_false", help="do not serve or attack sheets")
    parser.add_argument("--json", type=Path, help="file for the measurements")
    given = parser.parse_args(arguments)
    if given.sheets:
        from stratalog_sheet.engine_files import install_engine

        install_engine()
    with tempfile.TemporaryDirectory() as folder, two_cores() as core:
        with served(Path(folder), core, sheets=given.sheets) as server:
            undisturbed, disturbed, honest = asyncio.run(_both(server, given))
        # The end of the block has killed the server. Acknowledged writes must be on the disk.
        lost = lost_writes(server.store, honest.acknowledged)
    failures = failures_of(undisturbed, disturbed, lost, Limits())
    _print(undisturbed, disturbed, sum(map(len, honest.acknowledged.values())), failures)
    if given.json:
        figures = {"undisturbed": undisturbed, "disturbed": disturbed, "lost": lost, "failures": failures}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return 1 if failures else 0


def _print(undisturbed: Run, disturbed: Run, acknowledged: int, failures: Sequence[str]) -> None:
    rows: dict[str, Callable[[Run], str]] = {
        "honest requests": lambda run: str(run.requests),
        "p50": lambda run: f"{run.p50_ms:.1f} ms",
        "p99": lambda run: f"{run.p99_ms:.1f} ms",
        "/health p99": lambda run: f"{run.health_p99_ms:.1f} ms",
        "/health longest": lambda run: f"{run.health_longest_ms:.1f} ms",
        "errors of honest callers": lambda run: str(len(run.errors)),
        "pokes heard": lambda run: str(run.pokes),
        "memory of the server, peak": lambda run: f"{run.resident_bytes_peak >> 20} MiB",
        "log": lambda run: f"{run.log_bytes} bytes",
    }
    print(f"{'':28}{'undisturbed':>16}{'disturbed':>16}")
    for name, text in rows.items():
        print(f"{name:28}{text(undisturbed):>16}{text(disturbed):>16}")
    print(f"{'acknowledged writes':28}{acknowledged:>32}")
    for name, count in disturbed.attacks.items():
        print(f"  {name:26}{count:>32} times")
    for error in disturbed.errors[:SHOWN_MAX]:
        print(f"  error: {error}")
    print("\n".join(f"failed: {failure}" for failure in failures) or "every check passed")


if __name__ == "__main__":
    sys.exit(main())
