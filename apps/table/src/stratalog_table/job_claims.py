"""Claims of merge jobs. A worker claims a job and renews its claim. Any worker may take over an old claim.

A claim only avoids duplicate work. Correctness does not depend on claims: even if two workers do one job, the table
commits only one output. A claim is old if the time of its worker's clock and the time of its version are old. A worker
that takes over a claim names the claim that it saw. So if two workers take over the same claim, only one worker
succeeds.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from stratalog import Draft, Rejected
from stratalog.struct_types import resolved
from stratalog_table import messages
from stratalog_table.table_draft import TableDraft, check_id, meta_of, read

__all__ = ["CancelJob", "ClaimJob", "JobClaim", "cancel_job", "claim_job"]


class JobClaim(msgspec.Struct, frozen=True, array_like=True):
    """The worker that does a job, the number of heartbeats of the claim, and the time of the last heartbeat.

    Claims of older programs contain no time.
    """

    worker: str
    beats: int
    claimed_ms: int = 0


class ClaimJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claim of a job by a worker. ``seen`` is the stored claim that the new claim replaces, or None.

    The time of ``seen`` does not matter: each heartbeat has another number.
    """

    job: str
    partition: str
    worker: str
    seen: JobClaim | None = None
    claimed_ms: Annotated[int, msgspec.Meta(ge=0)] = 0


class CancelJob(msgspec.Struct, frozen=True):
    """The cancellation of a job on one partition."""

    job: str
    partition: str


def claim_job(draft: Draft, args: Any) -> None:
    """Claim a job that no worker has, or replace the claim ``seen``. Raises Rejected if another claim is stored."""
    wanted: ClaimJob = read(args, ClaimJob)
    layout = meta_of(draft).layout
    check_id(wanted.worker, "worker")
    if draft.get(layout.job(wanted.job, wanted.partition)) is None:
        raise Rejected(messages.job_not_found(wanted.job, wanted.partition))
    key = layout.claim(wanted.job, wanted.partition)
    stored: Any = draft.get(key)
    known = None if stored is None else msgspec.convert(stored, resolved(JobClaim))
    if _heartbeat(known) != _heartbeat(wanted.seen):
        raise Rejected(messages.job_claimed(wanted.job, wanted.partition, known.worker if known else "nobody"))
    draft.put(key, [wanted.worker, 1 if known is None else known.beats + 1, wanted.claimed_ms])


def _heartbeat(claim: JobClaim | None) -> tuple[str, int] | None:
    return None if claim is None else (claim.worker, claim.beats)


def cancel_job(draft: Draft, args: Any) -> None:
    """Unassign all references of a partition from a job. So the table refuses the commit of the job's worker."""
    wanted: CancelJob = read(args, CancelJob)
    table_draft = TableDraft(draft)
    table_draft.need_partition(wanted.partition)
    references = [reference for reference in table_draft.references_on(wanted.partition) if reference.job == wanted.job]
    if not references:
        raise Rejected(messages.job_not_found(wanted.job, wanted.partition))
    for reference in references:
        table_draft.unassign(reference)
    table_draft.close()
