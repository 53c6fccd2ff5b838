"""The verification of a backup: read and hash each object, and compare each recomputed chain with its checkpoint.

The checkpoint of a history is a row of the catalogue, whose root is in the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.backups.format import HISTORY_ROW, BackupFailure, BackupManifest
from stratalog.backups.prune import needed_keys
from stratalog.backups.repository import BackupRepository
from stratalog.backups.view import BackupIndex, store_over
from stratalog.errors import Corrupt
from stratalog.limits import DAMAGED_PARTS_NAMED_MAX
from stratalog.log.callbacks import Report, quiet
from stratalog.maintenance.checkpoint import Checkpoint, prove_descent, read_line
from stratalog.store import Store
from stratalog.tree.lookup import scan
from stratalog.tree.reach import verify as verify_tree

__all__ = ["BackupVerification", "verify_backup"]


class BackupVerification(msgspec.Struct, frozen=True):
    """The amounts read, and the findings, each with a key of the repository or the name of a history.

    ``content_bytes`` is the size of the objects' content, which the repository stores compressed.
    """

    id: str
    objects: int
    content_bytes: int
    histories: int
    findings: tuple[BackupFailure, ...]
    more_findings: int = 0
    """The number of findings after `DAMAGED_PARTS_NAMED_MAX`, which are not in ``findings``."""


def verify_backup(
    repository: BackupRepository, manifest: BackupManifest, progress: Report | None = None
) -> BackupVerification:
    """Read everything that a backup needs, each object from storage. Damage is in the findings.

    Raises Unavailable, and Conflict if a prune removed the backup meanwhile.
    """
    return _Verification(repository, manifest, progress or quiet).run()


class _Verification:
    def __init__(self, repository: BackupRepository, manifest: BackupManifest, report: Report) -> None:
        self._repository = repository
        self._manifest = manifest
        self._report = report
        self._findings: list[BackupFailure] = []
        self._more = 0
        self._objects = self._bytes = self._histories = 0

    def run(self) -> BackupVerification:
        try:
            verify_tree(self._repository.chunks, self._manifest.root)
            for key in needed_keys(self._repository, self._manifest.root):
                self._read(key)
        except Corrupt as exc:
            self._find("catalogue", exc)
        backup = store_over(BackupIndex(self._repository, self._manifest.root), self._repository, self._manifest)
        for checkpoint in self._checkpoints():
            self._verify_history(backup, checkpoint)
        if self._findings:
            self._repository.require_backup(self._manifest.id)  # a prune deletes objects, which is no damage
        return BackupVerification(
            self._manifest.id, self._objects, self._bytes, self._histories, tuple(self._findings), self._more
        )

    def _read(self, key: str) -> None:
        try:
            self._bytes += len(self._repository.objects.get(key))
        except Corrupt as exc:
            self._find(key, exc)
        self._objects += 1
        self._report(1)

    def _checkpoints(self) -> Iterator[Checkpoint]:
        try:
            for _, slot in scan(self._repository.chunks, self._manifest.root, prefix=HISTORY_ROW):
                yield read_line(slot.value.decode())
        except Corrupt as exc:
            self._find("catalogue", exc)

    def _verify_history(self, backup: Store, checkpoint: Checkpoint) -> None:
        """Verify a history's chain, and that the chain ends with the version and hash of the catalogue's checkpoint."""
        history = checkpoint.history
        title = f"{history.kind} {history.organisation}/{history.name}"
        self._histories += 1
        self._report(1)
        descent = prove_descent(backup, checkpoint)
        for finding in descent.report.findings if descent.report else ():
            reason = f"version {finding.version}: {finding.reason}{finding.key and f' {finding.key}'}"
            self._add(BackupFailure(title, finding.kind, reason))
        if descent.status != "proven":
            self._add(BackupFailure(title, descent.status, descent.reason))
        elif descent.report and descent.report.chain.version != checkpoint.version:
            reason = f"the history ends at version {descent.report.chain.version}, not {checkpoint.version}"
            self._add(BackupFailure(title, "contradicted", reason))

    def _find(self, what: str, error: Corrupt) -> None:
        self._add(BackupFailure(what, error.code, str(error)))

    def _add(self, finding: BackupFailure) -> None:
        if len(self._findings) < DAMAGED_PARTS_NAMED_MAX:
            self._findings.append(finding)
        else:
            self._more += 1
