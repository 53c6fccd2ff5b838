"""mutators.json has the cases of the built-in mutators of both languages. These tests run the mutators in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.codec import canonical, encode
from stratalog.errors import StratalogError
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Rejected
from stratalog.protocol.readable import from_plain

CASES = json.loads((Path(__file__).parent / "mutators.json").read_bytes())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_built_in_mutators_in_python_match_the_table_of_cases(case: dict[str, Any]) -> None:
    state = encoded(case["state"])
    draft = Draft(state.get, lambda prefix: (key for key in sorted(state) if key.startswith(prefix)))
    args = canonical(from_plain(case["args"]))
    if "rejected" in case:
        with pytest.raises((Rejected, StratalogError)) as caught:
            BUILT_IN_MUTATORS[case["run"]](draft, args)
        assert case["rejected"] in (None, getattr(caught.value, "reason", None))
    else:
        BUILT_IN_MUTATORS[case["run"]](draft, args)
        assert {key: draft.encoded(key) for key in draft.keys()} == encoded(case["left"])  # noqa: SIM118 - a Draft


def encoded(plain: dict[str, Any]) -> dict[str, bytes]:
    return {key: encode(canonical(from_plain(value))) for key, value in plain.items()}
