"""Who does which job: a worker claims a job, says again and again that it is at it, and anybody may take it over later.

A claim spares work and decides nothing: what a job has done is committed once, whoever did it. No transaction carries a
time. How old a claim is, is told by the version that wrote it; who takes one over says which it saw.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog import Draft, Rejected
from stratalog_table import messages
from stratalog_table.table_draft import TableDraft, check_id, meta_of, read

__all__ = ["CancelJob", "ClaimJob", "JobClaim", "cancel_job", "claim_job"]


class JobClaim(msgspec.Struct, frozen=True, array_like=True):
    """A worker that does a job, and how often it has said so."""

    worker: str
    beats: int


class ClaimJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker is at a job. ``seen`` is the claim that it renews or takes over; without one it is the first."""

    job: str
    partition: str
    worker: str
    seen: JobClaim | None = None


class CancelJob(msgspec.Struct, frozen=True):
    """A job that is not to be done."""

    job: str
    partition: str


def claim_job(draft: Draft, args: Any) -> None:
    """Claim a job that no worker has, or replace the claim that ``seen`` names."""
    wanted: ClaimJob = read(args, ClaimJob)
    layout = meta_of(draft).layout
    check_id(wanted.worker, "worker")
    if draft.get(layout.job(wanted.job, wanted.partition)) is None:
        raise Rejected(messages.job_not_found(wanted.job, wanted.partition))
    key = layout.claim(wanted.job, wanted.partition)
    stored: Any = draft.get(key)
    known = None if stored is None else msgspec.convert(stored, JobClaim)
    if known != wanted.seen:
        raise Rejected(messages.job_claimed(wanted.job, wanted.partition, known.worker if known else "nobody"))
    draft.put(key, [wanted.worker, 1 if known is None else known.beats + 1])


def cancel_job(draft: Draft, args: Any) -> None:
    """Take all references of a partition from a job. Who does it is refused when it commits."""
    wanted: CancelJob = read(args, CancelJob)
    table_draft = TableDraft(draft)
    table_draft.need_partition(wanted.partition)
    references = [reference for reference in table_draft.references_on(wanted.partition) if reference.job == wanted.job]
    if not references:
        raise Rejected(messages.job_not_found(wanted.job, wanted.partition))
    for reference in references:
        table_draft.unassign(reference)
    table_draft.close()
