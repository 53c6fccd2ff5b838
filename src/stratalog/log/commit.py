"""A commit whose answer may get lost: the function then reads whether the commit took effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stratalog.errors import ConditionFailed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.log.environment import Environment
from stratalog.ports.index import NO_BLOBS, Write

__all__ = ["commit_once"]


def commit_once(
    environment: Environment,
    writes: Sequence[Write],
    landed: Callable[[], bool],
    blobs: Mapping[str, bytes] = NO_BLOBS,
) -> None:
    """Commit ``writes`` with ``blobs``. If the answer is lost, read whether the commit took effect.

    ``landed`` reads whether the writes took effect. No other caller may make the same writes. After a lost answer this
    function calls ``landed``. If ``landed`` returns False, the function commits the writes again, while the first
    commit may still be under way. A commit must make one of its own conditions false, so that only one of the
    two commits can take effect. A commit without conditions may take effect twice. So this must be harmless, and its
    ``landed`` may always return False.

    Raises ConditionFailed: nothing was written. Raises Unavailable: nothing was written within the time budget. Raises
    OutcomeUnknown: the writes may have taken effect.
    """
    retry = environment.retry()
    in_doubt = False
    refused: ConditionFailed | None = None
    cause: StratalogError
    while True:
        try:
            if in_doubt and landed():
                return
            if refused is not None:
                raise refused
            environment.index.commit(writes, blobs)
            return
        except ConditionFailed as exc:
            # After a lost answer, our own earlier commit may have made the conditions fail. Call `landed` to find out.
            if not in_doubt or refused is not None:
                raise
            refused = exc
            continue
        except OutcomeUnknown as exc:
            in_doubt, cause = True, exc
        except Unavailable as exc:
            cause = _cause(exc, in_doubt)
        if not retry.wait(cause):
            raise cause


def _cause(unavailable: Unavailable, in_doubt: bool) -> StratalogError:
    """Return the error after the time budget: OutcomeUnknown if an earlier commit may have landed, else Unavailable."""
    if not in_doubt:
        return unavailable
    unknown = OutcomeUnknown("the outcome of a commit did not arrive in time")
    unknown.__cause__ = unavailable
    return unknown
