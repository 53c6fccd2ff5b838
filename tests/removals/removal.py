"""A removal: the edits that remove a fix from the checkout, and the tests that must then fail."""

from __future__ import annotations

from pathlib import Path

import msgspec

__all__ = ["Edit", "Removal", "RemovalError"]


class RemovalError(Exception):
    """A removal no longer fits the source."""


class Edit(msgspec.Struct, frozen=True):
    """A fixed text in one file, and the text before the fix. The file must contain the fixed text exactly once."""

    path: str
    fixed: str
    unfixed: str

    def apply(self, root: Path) -> None:
        """Change the file below ``root``. Raises RemovalError if the file does not contain the text exactly once."""
        file = root / self.path
        text = file.read_text()
        if (count := text.count(self.fixed)) != 1:
            raise RemovalError(f"{self.path} holds this {count} times, not once:\n{self.fixed}")
        file.write_text(text.replace(self.fixed, self.unfixed))


class Removal(msgspec.Struct, frozen=True):
    """The removal of a bug's fix. Each test or world in ``fails`` must then fail.

    ``fails`` has names as in docs/guarantees.md: ``tests/…::test_…``, or ``world log`` for a simulated world whose
    checkers notice the bug. After any other AttributeError, ImportError, NameError or SyntaxError than those that the
    bug itself raises, which ``raises`` names, the failed test proves nothing: the removal broke the code.
    """

    bug: str
    edits: tuple[Edit, ...]
    fails: tuple[str, ...]
    raises: tuple[str, ...] = ()
