"""The attackers: a process of their own, so that their work does not delay the honest callers, who measure time.

``python -m tests.hostile.attackers PORT NAME…`` makes the attacks of these names until its stdin ends. Then it prints
how often it made each, as JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from tests.hostile.attacks import ATTACKS, SHEET_ATTACKS, Attack
from tests.processes import ChildProcess, environment, start

__all__ = ["Attackers", "attackers"]

NICENESS = 5
"""Above that of the honest callers, who share the core: a due request is sent when it is due."""

BEGUN = "attacking"


class Attackers:
    """The running process."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process

    def end(self) -> dict[str, int]:
        """End all attacks, and return how often each was made. Raises ProcessFailure if the process failed."""
        return msgspec.json.decode(self._process.end(), type=dict[str, int])


@contextmanager
def attackers(port: int, names: Sequence[str]) -> Iterator[Attackers]:
    """Make the attacks of these names until `Attackers.end` or the end of the block."""
    command = [sys.executable, "-m", "tests.hostile.attackers", str(port), *names]
    with start(command, env=environment()) as process:
        assert process.read_line().strip() == BEGUN
        yield Attackers(process)


async def _attack(port: int, names: Sequence[str]) -> dict[str, int]:
    chosen = [attack for attack in (*ATTACKS, *SHEET_ATTACKS) if attack.__name__ in names]
    made = {attack.__name__: Attack(port) for attack in chosen}
    running = [asyncio.ensure_future(attack(made[attack.__name__])) for attack in chosen]
    print(BEGUN, flush=True)
    stopped = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    # An attack never ends by itself: one that has ended has failed.
    ended, _ = await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        task.cancel()
    results = await asyncio.gather(*running, return_exceptions=True)
    failed = [result for result in results if isinstance(result, Exception)]
    if failed or stopped not in ended:
        raise RuntimeError(f"an attack ended: {failed!r}")
    return {name: attack.sent for name, attack in made.items()}


def main() -> int:
    """Attack until stdin ends, and print the counts."""
    os.nice(NICENESS)
    port, *names = sys.argv[1:]
    print(msgspec.json.encode(asyncio.run(_attack(int(port), names))).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
