"""Checkpoints: a history's version and hash, kept outside the store to prove later that the store kept this history.

`formats/checkpoint.md` describes the texts. A checkpoint of a whole store is the root of a Merkle tree (hashed as in
RFC 6962) over one line for each history.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote, unquote

import msgspec

from stratalog.codec import is_decimal
from stratalog.errors import Corrupt, Invalid, NotFound, VersionForgotten
from stratalog.log.callbacks import Report
from stratalog.log.chain import genesis
from stratalog.log.names import DOCUMENT_OR_LOG
from stratalog.log.verification import DAMAGE_ERRORS, INTACT_ERRORS, ChainReport
from stratalog.maintenance.verification import (
    HistoryName,
    HistoryReport,
    is_deleted,
    list_histories,
    verify_history,
)
from stratalog.records.floor import read_floor
from stratalog.records.history import item_at
from stratalog.records.versions import Name
from stratalog.store import Store
from stratalog.struct_types import resolved

__all__ = [
    "Checkpoint",
    "Descent",
    "DescentStatus",
    "StoreCheckpoint",
    "checkpoint_of",
    "checkpoints_of",
    "merkle_root",
    "prove_descent",
    "read_checkpoint",
    "read_line",
    "read_lines",
]

FIRST_LINE = "stratalog checkpoint 1"
FIRST_LINE_OF_STORE = "stratalog store checkpoint 1"
HASH_BYTES = 32

DescentStatus = Literal["proven", "not-provable", "contradicted"]


class Checkpoint(msgspec.Struct, frozen=True):
    """A history at ``version``. The hash covers the whole history up to that version."""

    history: HistoryName
    origin: str
    version: int
    hash: bytes

    def fields(self) -> list[str]:
        """Return the fields of the checkpoint's text. No field contains a space or a line break."""
        history = self.history
        name = f"{quote(history.organisation, safe='')}/{quote(history.name, safe='')}"
        return [history.kind, name, quote(self.origin, safe="/"), str(self.version), _base64(self.hash)]

    def text(self) -> str:
        """Return the text to be signed."""
        return "\n".join([FIRST_LINE, *self.fields()]) + "\n"

    def line(self) -> str:
        """Return the checkpoint's line in the list of a store checkpoint."""
        return " ".join(self.fields())


class StoreCheckpoint(msgspec.Struct, frozen=True):
    """The root of the Merkle tree over the checkpoint lines of all histories, and the number of lines."""

    count: int
    root: bytes

    def text(self) -> str:
        """Return the text to be signed."""
        return f"{FIRST_LINE_OF_STORE}\n{self.count}\n{_base64(self.root)}\n"


class Descent(msgspec.Struct, frozen=True):
    """Whether a history descends from a checkpoint, with the report of the history's verification."""

    checkpoint: Checkpoint
    status: DescentStatus
    reason: str
    report: HistoryReport | None = None


def checkpoint_of(store: Store, history: HistoryName) -> Checkpoint:
    """Return the checkpoint of a history's newest version. Reads the head and verifies nothing.

    Raises NotFound, and Corrupt for a damaged head or origin.
    """
    if history.kind == "log":
        log = store.log(history.organisation, history.name, noun=DOCUMENT_OR_LOG)
        head = log.head()
        return Checkpoint(history, log.record.origin, head.version, head.hash)
    latest = store.records(history.organisation).stat(history.name)
    return Checkpoint(history, _record_origin(store, history), latest.version, latest.hash)


def checkpoints_of(store: Store) -> list[Checkpoint]:
    """Return the checkpoints of all live histories, in the order of their lines.

    A log that is deleted meanwhile is left out. Raises NotFound for a listed history that is missing, and Corrupt.
    """
    checkpoints = []
    for history in list_histories(store):
        try:
            checkpoints.append(checkpoint_of(store, history))
        except NotFound:
            if not is_deleted(store, history):
                raise
    return sorted(checkpoints, key=Checkpoint.line)


def merkle_root(lines: Sequence[str]) -> bytes:
    """Return the root of the Merkle tree over the lines, hashed as in RFC 6962."""
    return _root([hashlib.sha256(b"\0" + line.encode()).digest() for line in lines])


def read_checkpoint(text: str) -> Checkpoint | StoreCheckpoint:
    """Parse the text of a note. Raises Invalid."""
    first, *rest = text.splitlines() or [""]
    if first == FIRST_LINE and len(rest) == 5:
        return _checkpoint(rest)
    if first == FIRST_LINE_OF_STORE and len(rest) == 2 and is_decimal(rest[0]):
        return StoreCheckpoint(int(rest[0]), _hash(rest[1]))
    raise Invalid("the note is not a checkpoint of a known version", first_line=first)


def read_lines(store_checkpoint: StoreCheckpoint, text: str) -> list[Checkpoint]:
    """Return the checkpoints in a list of lines.

    Raises Invalid if the list's root is not the store checkpoint's, or if a line cannot be decoded.
    """
    lines = text.splitlines()
    if len(lines) != store_checkpoint.count or merkle_root(lines) != store_checkpoint.root:
        raise Invalid("the list does not match the checkpoint", lines=len(lines))
    return [read_line(line) for line in lines]


def read_line(line: str) -> Checkpoint:
    """Parse a line that `Checkpoint.line` wrote. Raises Invalid."""
    return _checkpoint(line.split(" "))


def prove_descent(
    store: Store,
    checkpoint: Checkpoint,
    history: HistoryName | None = None,
    progress: Report | None = None,
) -> Descent:
    """Verify a history and compare its hash at the checkpoint's version with the checkpoint.

    ``history`` replaces the history that the checkpoint names. For a missing history the status is "contradicted". It
    is "not-provable" for a forgotten version, for a log or record whose floor rose during each attempt to verify it,
    and if damage hides the origin, the end or the version's hash. The result's ``report`` holds the findings about the
    whole chain: a chain may have findings even if the descent is proven. Raises Unavailable.
    """
    chosen = history or checkpoint.history
    try:
        report = verify_history(store, chosen, progress=progress)
    except VersionForgotten as exc:
        return Descent(checkpoint, "not-provable", exc.message)
    except NotFound as exc:
        return Descent(checkpoint, "contradicted", exc.message)
    chain = report.chain
    # A damaged origin, or a damaged hash at the floor, causes a finding for the first version that is verified.
    first = chain.start + 1
    if chain.origin and chain.origin != checkpoint.origin and not _is_damaged(chain, first):
        return Descent(checkpoint, "contradicted", "the store holds another history, with another origin", report)
    if checkpoint.version > chain.version and not _is_damaged(chain, chain.version):
        return Descent(checkpoint, "contradicted", f"the history ends at version {chain.version}", report)
    if checkpoint.version < chain.start:
        return Descent(checkpoint, "not-provable", f"versions below {chain.start} are forgotten", report)
    if checkpoint.version > chain.version or chain.origin != checkpoint.origin:
        return Descent(checkpoint, "not-provable", "the end or the origin of the history is damaged", report)
    try:
        hash = _hash_at(store, chosen, chain, checkpoint.version)
    except VersionForgotten:
        return Descent(checkpoint, "not-provable", "the version was forgotten while it was read", report)
    if hash == checkpoint.hash:
        return Descent(checkpoint, "proven", f"the history holds version {checkpoint.version}", report)
    if not hash or _is_damaged(chain, max(checkpoint.version, first)):
        return Descent(checkpoint, "not-provable", f"version {checkpoint.version} is damaged", report)
    return Descent(checkpoint, "contradicted", "the history up to the version differs", report)


def _is_damaged(chain: ChainReport, version: int) -> bool:
    return any(finding.version <= version <= finding.last for finding in chain.findings)


def _hash_at(store: Store, history: HistoryName, chain: ChainReport, version: int) -> bytes:
    """Return the hash stored with a version; empty bytes if it cannot be read. Raises VersionForgotten.

    The stored hash suffices: the verification computed the same hash or reported a finding.
    """
    if version == 0:
        return genesis(chain.origin)
    try:
        if history.kind == "log":
            return store.log(history.organisation, history.name).hash_at(version)
        name = Name(history.organisation, history.name)
        if version == chain.start:
            floor = read_floor(store.environment.index, name)
            if floor.version - 1 != chain.start:
                raise VersionForgotten("the version is forgotten", record=name.id, version=version, floor=floor.version)
            return floor.hash
        item = item_at(store.environment, name, version)
        hash = item.attributes.get("ch") if item else None
        return hash if isinstance(hash, bytes) else b""
    except INTACT_ERRORS:
        raise
    except DAMAGE_ERRORS:
        return b""


def _record_origin(store: Store, history: HistoryName) -> str:
    """Return the origin, which the floor or version 1 stores. Raises Corrupt."""
    name = Name(history.organisation, history.name)
    floor = read_floor(store.environment.index, name)
    first = None if floor.origin else item_at(store.environment, name, 1)
    origin = floor.origin or (first.attributes.get("og") if first else None)
    if not isinstance(origin, str):
        raise Corrupt("the first version, which names the origin, cannot be read", record=history.name)
    return origin


def _checkpoint(fields: Sequence[str]) -> Checkpoint:
    try:
        kind, name, origin, version, hash = fields
        organisation, id = map(unquote, name.split("/"))
        history = msgspec.convert({"kind": kind, "organisation": organisation, "name": id}, resolved(HistoryName))
        return Checkpoint(history, unquote(origin), _number(version), _hash(hash))
    except (ValueError, msgspec.ValidationError) as exc:
        raise Invalid("a checkpoint cannot be decoded", reason=str(exc)) from exc


def _number(text: str) -> int:
    if not is_decimal(text):
        raise ValueError(f"{text!r} is not a version")
    return int(text)


def _hash(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise Invalid("a checkpoint's hash is not Base64", value=text) from exc
    if len(decoded) != HASH_BYTES:
        raise Invalid("a checkpoint's hash has the wrong length", value=text)
    return decoded


def _root(hashes: Sequence[bytes]) -> bytes:
    """Return the root as in RFC 6962.

    Without leaves the root is the hash of the empty byte string. For n leaves, the number of leaves in the left subtree
    is the largest power of two below n.
    """
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + _root(hashes[:half]) + _root(hashes[half:])).digest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
