"""The handler of a schedule: one pass of maintenance, as far as its time reaches. The next one goes on from there."""

from __future__ import annotations

import logging
import os
from typing import Any

import msgspec

from stratalog.aws.container import Container, container
from stratalog.errors import Unavailable
from stratalog.maintenance.policy import MaintenancePolicy, read_policy
from stratalog.maintenance.store_pass import MaintenanceReport, maintain

__all__ = ["handler", "maintained"]

END_SECONDS = 60.0
"""So long before the end no new piece of work is begun."""

_log = logging.getLogger("stratalog.aws")


def handler(event: object, context: Any) -> dict[str, Any]:
    """Lambda's entry point. ``STRATALOG_POLICY`` says as JSON what is kept; without it all that can be reached is.

    Raises Unavailable at the end where something failed, so that the function's alarm goes off.
    """
    policy = read_policy(os.environ.get("STRATALOG_POLICY") or "{}")
    seconds = max(0.0, context.get_remaining_time_in_millis() / 1000 - END_SECONDS)
    done = maintained(container(), policy, seconds)
    if done.failures:
        raise Unavailable("not all of the store could be kept up", failures=len(done.failures), first=done.failures[0])
    return msgspec.to_builtins(done)  # type: ignore[no-any-return]


def maintained(opened: Container, policy: MaintenancePolicy, seconds: float) -> MaintenanceReport:
    """One pass over a container's store, and its application's own steps."""
    application = opened.application
    done = maintain(
        opened.store, policy, steps=application.maintenance, seconds=seconds, measures=application.has_quotas
    )
    for failure in done.failures:
        _log.error("not kept up: %s", failure)
    return done
