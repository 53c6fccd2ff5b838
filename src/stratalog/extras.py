"""Optional dependencies: an import without its extra raises an error that names the command to install the extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.errors import Invalid

__all__ = ["MissingExtra", "needs_extra"]


class MissingExtra(Invalid, ModuleNotFoundError):
    """A module of an extra is not installed. ``name`` is the missing module, as in the error of Python."""

    @property
    def name(self) -> str | None:  # type: ignore[override]
        """The missing module."""
        return self.details.get("missing")


@contextmanager
def needs_extra(extra: str, purpose: str, distribution: str = "stratalog") -> Iterator[None]:
    """Run a block that imports modules of an extra of ``distribution``.

    Raises MissingExtra for a missing module. The message names ``purpose`` and the command that installs the extra.
    """
    try:
        yield
    except ModuleNotFoundError as exc:
        raise MissingExtra(
            f'{purpose} needs the {extra} extra: pip install "{distribution}[{extra}]"', missing=exc.name
        ) from exc
