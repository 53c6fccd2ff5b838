"""Optional dependencies: an import without its extra fails with the command that installs the extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Run a block that imports modules of an extra.

    Raises ModuleNotFoundError for a missing module. The message names ``purpose`` and the command that installs the
    extra; ``name`` is the missing module, as in the error of Python.
    """
    try:
        yield
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f'{purpose} needs the {extra} extra: pip install "stratalog[{extra}]" ({exc.msg})', name=exc.name
        ) from exc
