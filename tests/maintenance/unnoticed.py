"""The attributes whose damage no verification can notice, by kind of item. No other object confirms their values.

Each attribute has a phrase in the column *what cannot be noticed* of `docs/guides/verify.md`. A test compares the
phrases with the page.
"""

from __future__ import annotations

__all__ = ["DELETED", "UNNOTICED", "UNNOTICED_BY_STATE"]

DELETED = "(deleted)"
"""A key of `UNNOTICED` that means the loss of a whole item, and not damage of one attribute."""

REVISION = "its revision"  # only the condition of the next change compares this counter
TIME_AND_ID = "its time and id"  # only people read the time, and the id is random
MISSING = "that it is missing"
CHECKPOINT = "[checkpoint](../concepts/proof.md#checkpoints)"
NUMBERS = "its numbers and texts"

UNNOTICED: dict[str, dict[str, str]] = {
    "name record": {
        "r": REVISION,
        "x": "that a version was redacted, once that version is forgotten",
    },
    "segment record": {
        "r": REVISION,
        "m": "when it was marked",  # verification notices a missing mark
        "b": "that the record does not name the version of its base",  # verification notices a wrong version
        "d": "a wrong mark that its entries are gone from the index",  # verification accepts both values
    },
    "snapshot": {"c": TIME_AND_ID, "w": TIME_AND_ID},
    "end marker": {"c": TIME_AND_ID, "w": TIME_AND_ID},
    "directory line": {"c": "the time of a record whose first version is forgotten"},
    "family member": {"d": "that the stored depth of a fork is greater than the number of its ancestors requires"},
    "deleted incarnation": {DELETED: "that it is missing, if no other log of its family exists"},
    "projection checkpoint": {DELETED: "that it is missing: the projection then starts from the beginning"},
    "record floor": {
        "r": "its revision and id",
        "w": "its revision and id",
        "p": "when versions that wait to be freed were marked",  # verification notices damage of the versions
        "og": "the origin of a history whose beginning is forgotten",
    },
    "upload": {"c": "its time", DELETED: MISSING},
    "failures": dict.fromkeys("qdyflwsn", "their numbers and texts, unless the record is a dead letter"),
    "attempt record": {
        DELETED: MISSING,
        **dict.fromkeys(("reason", "failed_ms", "client", "id", "tries", "receives", "redriven_ms"), NUMBERS),
    },
    "rejected mutation": {DELETED: MISSING, "redriven_ms": "when it was redriven"},
}

UNNOTICED_BY_STATE: dict[str, set[str]] = {
    "name record": {
        "every fact of a deleted log except its deletion",
        "an origin to which no stored object refers",
    },
    "entry": {f"that the newest entries are missing, unless a snapshot, the name record or a {CHECKPOINT} names them"},
    "snapshot": {"that it is missing, unless it is the base of a floor"},
    "directory line": {
        "that the line is missing, if the log or record has no blobs and no other log of its family exists"
    },
    "organisation line": {"that it is missing, if the organisation has no blobs"},
    "record floor": {
        "that it is missing, if no version is forgotten",
        "that it names fewer freed versions than were freed, until the next maintenance",
    },
    "record version": {"that the newest versions are missing"},
    "dead message": {"wrong content that can be decoded", MISSING},
}
"""Further phrases of the page, about damage that verification cannot notice in some states of a store.

Each phrase applies to every attribute of the object.
"""
