"""The handler of a schedule: one maintenance pass within the function's time. The next call continues the work."""

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
"""In these last seconds of the function's time, the pass begins no new part."""

_log = logging.getLogger("stratalog.aws")


def handler(event: object, context: Any) -> dict[str, Any]:
    """Run one maintenance pass: the entry point for Lambda.

    ``STRATALOG_POLICY`` is the policy as JSON. Without a policy, the pass deletes only unreachable data. Raises
    Unavailable after the pass if a part of the pass failed, so that the function's alarm goes off.
    """
    policy = read_policy(os.environ.get("STRATALOG_POLICY") or "{}")
    seconds = max(0.0, context.get_remaining_time_in_millis() / 1000 - END_SECONDS)
    done = maintained(container(), policy, seconds)
    if done.failures:
        raise Unavailable(
            "maintenance of the store failed in part", failures=len(done.failures), first=done.failures[0]
        )
    return msgspec.to_builtins(done)  # type: ignore[no-any-return]


def maintained(opened: Container, policy: MaintenancePolicy, seconds: float) -> MaintenanceReport:
    """Run one pass over a container's store, with the application's own steps, and log the failures."""
    application = opened.application
    done = maintain(
        opened.store, policy, steps=application.maintenance, seconds=seconds, measures=application.has_quotas
    )
    for failure in done.failures:
        _log.error("maintenance failed: %s", failure)
    return done
