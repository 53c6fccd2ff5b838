"""The policy of a maintenance pass decides which data the pass removes. By default the pass removes only garbage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from stratalog.arguments import CheckedStruct
from stratalog.codec import json_reason
from stratalog.errors import Invalid
from stratalog.limits import CLIENT_IDLE_DAYS_MIN
from stratalog.struct_types import resolved

__all__ = ["MaintenancePolicy", "RetentionPolicy", "read_policy"]

Count = Annotated[int, msgspec.Meta(ge=1)]
Days = Annotated[float, msgspec.Meta(ge=0)]
_UNESCAPED = re.compile("%(?!25|2F)")


class RetentionPolicy(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The retention of a log's history. A segment is kept if `retain_segments` or `retain_days` keeps it."""

    retain_segments: Count | None = None
    """The number of newest segments to keep, including the current segment. Older segments are forgotten."""

    retain_days: Days | None = None
    """Segments that ended at least this many days ago are forgotten."""

    archive_days: Days | None = None
    """Segments that ended at least this many days ago are archived as blobs. Their versions stay readable."""


class MaintenancePolicy(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy of a pass. The default takes due snapshots and deletes only unreachable data."""

    snapshots: bool = True
    """Whether the pass takes the due snapshots of documents."""

    documents: RetentionPolicy = RetentionPolicy()
    logs: RetentionPolicy = RetentionPolicy()
    """The retention of logs that are not documents. The floor of a log with app snapshots is always the newest app
    snapshot at or below the version that the policy permits."""

    exceptions: Mapping[str, RetentionPolicy] = {}
    """Retention by `ORGANISATION/DOCUMENT` or `ORGANISATION/LOG`, else by `ORGANISATION`, else `documents` or `logs`.

    Write `%` in an organisation's id as `%25`, and a slash as `%2F`; otherwise one tenant's policy would apply to
    another tenant.
    """

    retain_record_versions: Count | None = None
    """The number of newest versions of each record to keep."""

    retain_record_days: Days | None = None
    """Keep each version that was its record's latest version at any time within this many days. Not allowed together
    with `retain_record_versions`.
    """

    expire_clients_days: Annotated[float, msgspec.Meta(ge=CLIENT_IDLE_DAYS_MIN)] | None = None
    """Forget the clients of documents whose groups committed nothing for this many days. None forgets no client.

    Late mutations of an expired group have no effect. The minimum is longer than SQS keeps a push; another queue keeps
    a push until a worker handles it.
    """

    collect_hours: Annotated[float, msgspec.Meta(ge=0)] = 24
    """The hours from the start of one collection of blobs to the start of the next."""

    measure_hours: Annotated[float, msgspec.Meta(ge=0)] | None = 24
    """The hours between two measurements of an organisation, if the application has quotas. None measures nothing."""

    scrub_days: Annotated[float, msgspec.Meta(gt=0)] | None = 30
    """The days within which the passes read and hash every blob, if their time suffices. None reads no blob."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retain_record_versions is not None and self.retain_record_days is not None:
            raise ValueError("a policy keeps records by a number of versions or by days, not by both")
        for name in self.exceptions:
            if _UNESCAPED.search(name.partition("/")[0]):
                raise ValueError(f"an exception writes % in an organisation as %25, and a slash as %2F: {name!r}")

    def retention(self, organisation: str, id: str, kind: str) -> RetentionPolicy:
        """Return the retention of one log: its exception, else its organisation's, else the default of its kind."""
        own = organisation.replace("%", "%25").replace("/", "%2F")
        exception = self.exceptions.get(f"{own}/{id}") or self.exceptions.get(own)
        return exception or (self.documents if kind == "document" else self.logs)


def read_policy(text: str | bytes) -> MaintenancePolicy:
    """Parse a policy from a JSON object. Raises Invalid."""
    try:
        return msgspec.json.decode(text, type=resolved(MaintenancePolicy))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Invalid("the policy is not valid", reason=json_reason(text, exc)) from exc
