"""What no verification can notice: attributes, by kind of item, of which nothing else in the store says anything.

`docs/guides/verify.md` gives the same list for readers; a test compares.
"""

from __future__ import annotations

__all__ = ["DELETED", "UNNOTICED"]

DELETED = "(deleted)"
"""The whole item."""

UNNOTICED: dict[str, dict[str, str]] = {
    "name record": {
        "r": "a count that only the next change is conditional on",
        "x": "that a version was redacted which is forgotten; that one which stands was is noticed",
    },
    "segment record": {
        "r": "a count that only the next change is conditional on",
        "m": "when it was marked; whether it was is noticed",
        "b": "that it is gone; a wrong one is noticed",
        "d": "whether its entries are gone is looked up",
    },
    "snapshot": {"c": "its time is for people", "w": "its id is random"},
    "end marker": {"c": "its time is for people", "w": "its id is random"},
    "directory line": {"c": "of a record whose first version is forgotten, nothing else has the time"},
    "family member": {"d": "a fork may lie deeper than its lineage says; one that lies too high is noticed"},
    "deleted incarnation": {DELETED: "without a family that lives, nothing leads to it"},
    "projection checkpoint": {DELETED: "the projection begins anew"},
    "record floor": {
        "r": "a count that only the next change is conditional on",
        "w": "its id is random",
        "p": "the times of what waits; what waits is noticed",
        "og": "the origin of a history whose beginning is forgotten",
    },
    "upload": {"c": "its time decides when it is given up", DELETED: "the upload then fails"},
    "failures": dict.fromkeys("qdyflwsn", "of a record that is no dead letter, nothing else counts them"),
    "attempt record": {
        DELETED: "its message is tried as if for the first time",
        **dict.fromkeys(
            ("reason", "failed_ms", "client", "id", "tries", "receives", "redriven_ms"), "nothing else says it"
        ),
    },
    "rejected mutation": {
        DELETED: "nothing leads to it",
        "redriven_ms": "it is written after the digest, and redriving twice has no effect",
    },
}
