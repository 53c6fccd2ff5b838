"""The attributes, by kind of item, whose damage no verification can notice, since nothing else confirms their values.

`docs/guides/verify.md` has the same list for readers. A test checks that the page lists each kind.
"""

from __future__ import annotations

__all__ = ["DELETED", "UNNOTICED"]

DELETED = "(deleted)"
"""The loss of the whole item."""

UNNOTICED: dict[str, dict[str, str]] = {
    "name record": {
        "r": "a count that only the next change is conditional on",
        "x": "the redaction of a forgotten version; that of a version above the floor is noticed",
    },
    "segment record": {
        "r": "a count that only the next change is conditional on",
        "m": "the time of the mark; a missing mark is noticed",
        "b": "its absence; a wrong value is noticed",
        "d": "verification looks up whether the entries are gone",
    },
    "snapshot": {"c": "its time is for people", "w": "its id is random"},
    "end marker": {"c": "its time is for people", "w": "its id is random"},
    "directory line": {"c": "the creation time of a record whose first version is forgotten"},
    "family member": {"d": "a fork may be deeper than its lineage shows; one that is too high is noticed"},
    "deleted incarnation": {DELETED: "without a living family, nothing refers to it"},
    "projection checkpoint": {DELETED: "the projection begins anew"},
    "record floor": {
        "r": "a count that only the next change is conditional on",
        "w": "its id is random",
        "p": "the times of the versions that wait to be freed; the versions are noticed",
        "og": "the origin of a history whose beginning is forgotten",
    },
    "upload": {"c": "its time decides when the upload expires", DELETED: "the upload then fails"},
    "failures": dict.fromkeys("qdyflwsn", "nothing else counts the failures of a record that is no dead letter"),
    "attempt record": {
        DELETED: "its message is handled as one that never failed",
        **dict.fromkeys(
            ("reason", "failed_ms", "client", "id", "tries", "receives", "redriven_ms"), "nothing else has the value"
        ),
    },
    "rejected mutation": {
        DELETED: "nothing refers to it",
        "redriven_ms": "it is written after the digest, and redriving twice has no effect",
    },
}
