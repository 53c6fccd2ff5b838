"""Reasons are committed with rejected mutations, so a renamed error or a reworded message would change histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.documents import Rules
from stratalog.protocol import Mutation
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Rejected
from stratalog.store import open_store

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "formats/golden/reasons-v1.json").read_text())
BEFORE = {"text": "t", "list": [1], "number": 1}
ERRORS = {"Rejected": Rejected, "ValueError": ValueError, "KeyError": KeyError}


def refuse(draft: Draft, args: Any) -> None:
    """An application's mutator that raises the error named in its arguments."""
    raise ERRORS[args["error"]](args["message"])


def nest(draft: Draft, args: Any) -> None:
    """Put a value that nests ``depth`` lists."""
    value: Any = 0
    for _ in range(args["depth"]):
        value = [value]
    draft.put("deep", value)


def put_not_a_number(draft: Draft, args: Any) -> None:
    """Put a value that JSON cannot represent."""
    draft.put("number", float(args["number"]))


def fill(draft: Draft, args: Any) -> None:
    """Put a text of ``characters`` characters under each of ``keys`` keys that begin with ``prefix``."""
    for number in range(args["keys"]):
        draft.put(f"{args['prefix']}{number}", "x" * args["characters"])


MUTATORS = {**BUILT_IN_MUTATORS, "refuse": refuse, "nest": nest, "put_not_a_number": put_not_a_number, "fill": fill}


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["reason"][:60])
def test_a_golden_reason_is_committed_as_it_was(case: dict[str, Any]) -> None:
    with open_store("memory:") as store:
        store.rules = Rules(mutators=MUTATORS)
        document = store.create("acme", "plan")
        document.apply(
            [
                Mutation(client="a", name="put", args={"key": key, "value": value}, id=number)
                for number, (key, value) in enumerate(BEFORE.items(), 1)
            ]
        )
        (outcome,) = document.apply([Mutation(client="c", name=case["name"], args=case["args"])])
        (committed,) = document.versions(after=1)
    assert (outcome.status, outcome.reason) == ("rejected", case["reason"])
    assert [made.reason for made in committed.mutations] == [case["reason"]]
