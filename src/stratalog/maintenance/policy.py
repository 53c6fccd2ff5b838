"""Policy: what a pass of maintenance keeps and what it may let go. Nothing but garbage unless it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from stratalog.errors import Invalid
from stratalog.limits import CLIENT_IDLE_DAYS_MIN

__all__ = ["MaintenancePolicy", "RetentionPolicy", "read_policy"]

Count = Annotated[int, msgspec.Meta(ge=1)]
Days = Annotated[float, msgspec.Meta(ge=0)]


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a log's history. Where both are said, what either of them keeps is kept."""

    retain_segments: Count | None = None
    """The newest so many segments, the current one among them; what is older is forgotten."""

    retain_days: Days | None = None
    """The versions of so many days; segments that ended before are forgotten."""

    archive_days: Days | None = None
    """Segments that ended so many days ago become blobs; their versions stay readable."""


class MaintenancePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pass does. The default makes snapshots and takes away what nobody can reach any more."""

    snapshots: bool = True
    """Whether documents are given the snapshots that are due."""

    documents: RetentionPolicy = RetentionPolicy()
    logs: RetentionPolicy = RetentionPolicy()
    """For logs that are no documents. One that keeps states loses nothing after the newest state that is old enough."""

    exceptions: Mapping[str, RetentionPolicy] = {}
    """By `ORGANISATION/DOCUMENT` or `ORGANISATION`: what holds there instead, the more exact first.

    A slash in an organisation's id is written `%2F`, or one tenant's policy would hold for another's documents.
    """

    retain_record_versions: Count | None = None
    """The newest so many versions of each record."""

    retain_record_days: Days | None = None
    """The versions of records that were the latest within so many days; not beside `retain_record_versions`."""

    expire_clients_days: Annotated[float, msgspec.Meta(ge=CLIENT_IDLE_DAYS_MIN)] | None = None
    """Clients of documents whose groups committed nothing for so many days are forgotten. All are kept by default.

    No shorter than a queue may hold a push: an expired group's late mutations have no effect.
    """

    collect_hours: Annotated[float, msgspec.Meta(ge=0)] = 24
    """How long after one collection of blobs the next one begins."""

    measure_hours: Annotated[float, msgspec.Meta(ge=0)] | None = 24
    """How long after an organisation was measured it is measured again, where the application has quotas."""

    scrub_days: Annotated[float, msgspec.Meta(gt=0)] | None = 30
    """Every blob is read and hashed within so many days; None reads none."""

    def __post_init__(self) -> None:
        if self.retain_record_versions is not None and self.retain_record_days is not None:
            raise ValueError("records are kept by number of versions or by days, not by both")

    def retention(self, organisation: str, id: str, kind: str) -> RetentionPolicy:
        """What holds for one log."""
        own = organisation.replace("/", "%2F")
        exception = self.exceptions.get(f"{own}/{id}") or self.exceptions.get(own)
        return exception or (self.documents if kind == "document" else self.logs)


def read_policy(text: str | bytes) -> MaintenancePolicy:
    """The policy that a JSON object says. Raises Invalid."""
    try:
        return msgspec.json.decode(text, type=MaintenancePolicy)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Invalid("the policy is not valid", reason=str(exc)) from exc
