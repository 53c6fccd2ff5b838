"""A class whose methods race on its attributes, for the tests of interleaving."""

from __future__ import annotations


class Racing:
    """Methods that read and write shared attributes."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self.fixed = "never assigned again"

    def read_and_write(self) -> None:
        count = self.count
        self.count = count + 1

    def add(self) -> None:
        self.count += 1

    def note(self, name: str) -> None:
        self.names.append(name)

    @property
    def doubled(self) -> int:
        return 2 * self.count

    def look(self) -> str:
        return self.fixed
