"""The data of the benchmarks. Each side stores the same data: Stratalog, and each program that it is compared with.

The usual data is an event of about 140 bytes of JSON, similar to the data of small programs. `large_item` returns a
large value.
"""

from __future__ import annotations

import json
import random
import string
from typing import Any

__all__ = ["fact", "fact_bytes", "item_key", "large_item"]


def fact(number: int) -> dict[str, Any]:
    """Return the data of an event."""
    return {
        "key": item_key(number % 1000),
        "amount": 1000 + number % 977,
        "currency": "EUR",
        "note": "as agreed on the phone this morning",
        "by": f"person{number % 50}@example.org",
        "paid": number % 3 == 0,
    }


def fact_bytes(number: int) -> bytes:
    """Return `fact` of the same number as JSON."""
    return json.dumps(fact(number), separators=(",", ":")).encode()


def item_key(number: int) -> str:
    """Return the key of an item of a collection."""
    return f"orders/{number:08d}"


def large_item(chance: random.Random, size: int) -> dict[str, str]:
    """Return an item with ``size`` characters of text. 50,000 characters compress to about 40% of their size."""
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 10))) for _ in range(2000)]
    text = " ".join(chance.choices(words, k=size // 4))
    return {"id": words[0], "name": words[1], "text": text[:size]}
