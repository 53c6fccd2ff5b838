"""The media that a run measures: the disk at hand, and memory. The rate of plain inserts makes a medium quick or slow.

The ratio of Stratalog to plain SQLite depends on the time that a commit waits for the disk. So rows that depend on the
disk are measured on both media, each with the goals of its kind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from bench.measure import seconds_of
from bench.payload import fact_bytes
from bench.plain import Plain
from bench.workplace import Scale, Workplace

__all__ = ["MEMORY", "QUICK_RATE", "Medium", "opened_media"]

QUICK_RATE = 25_000
"""A medium with at least this number of plain durable inserts a second is quick."""

MEMORY = Path("/dev/shm")


class Medium(msgspec.Struct, frozen=True, kw_only=True):
    """A medium with its working folder, or the reason why it cannot be measured."""

    name: str
    work: Workplace | None = None
    plain_rate: float = 0.0
    """Durable inserts a second by plain SQLite, in its fastest round."""

    reason: str = ""

    @property
    def quick(self) -> bool:
        """Whether the goals for a quick disk apply."""
        return self.plain_rate >= QUICK_RATE

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        return f"{'quick' if self.quick else 'slow'}, {self.plain_rate:,.0f} plain inserts/s"


@contextmanager
def opened_media(scale: Scale, folder: Path | None = None, memory: Path = MEMORY) -> Iterator[list[Medium]]:
    """Make a working folder on the disk (in ``folder``, or among the temporary files) and one in memory."""
    with ExitStack() as stack:
        disk = _measured("disk", Workplace(_temporary(stack, folder), scale))
        if not memory.is_dir():
            yield [disk, Medium(name="memory", reason=f"no file system in memory: {memory} is missing")]
            return
        yield [disk, _measured("memory", Workplace(_temporary(stack, memory), scale, disk.work))]


def _temporary(stack: ExitStack, folder: Path | None) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stratalog-bench-", dir=folder)))


def _measured(name: str, work: Workplace) -> Medium:
    bodies = [fact_bytes(number) for number in range(work.scale.commits)]
    with closing(Plain(work.fresh() / "plain.sqlite")) as plain:
        plain.append_each(bodies)
        # The fastest round: other programs can only slow a disk down, and they must not change its kind.
        seconds = min(seconds_of(lambda: plain.append_each(bodies)) for _ in range(work.scale.rounds))
    return Medium(name=name, work=work, plain_rate=len(bodies) / seconds)
