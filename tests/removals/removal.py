"""What is taken out of the checkout, and what must fail then."""

from __future__ import annotations

from pathlib import Path

import msgspec

__all__ = ["Edit", "Removal", "RemovalError"]


class RemovalError(Exception):
    """A removal does not fit the checkout any more."""


class Edit(msgspec.Struct, frozen=True):
    """A text of one file, and what stood there before the fix. The text must be in the file exactly once."""

    path: str
    fixed: str
    unfixed: str

    def apply(self, root: Path) -> None:
        """Change the file below ``root``. Raises RemovalError where the text is not there once."""
        file = root / self.path
        text = file.read_text()
        if (count := text.count(self.fixed)) != 1:
            raise RemovalError(f"{self.path} holds this {count} times, not once:\n{self.fixed}")
        file.write_text(text.replace(self.fixed, self.unfixed))


class Removal(msgspec.Struct, frozen=True):
    """The fix of a bug taken out. Each of ``fails`` must fail then.

    ``fails`` has names as docs/guarantees.md writes them, ``tests/…::test_…``, or ``world log`` for a world whose
    checkers notice the bug. ``raises`` names the errors of Python's own that the bug shows itself by, such as
    AttributeError: any other removal that ends in one has broken the code, and proves nothing.
    """

    bug: str
    edits: tuple[Edit, ...]
    fails: tuple[str, ...]
    raises: tuple[str, ...] = ()
