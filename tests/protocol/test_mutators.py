"""The built-in mutators, with valid and invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.protocol import BUILT_IN_MUTATORS, Rejected
from tests.protocol.test_draft import draft_on


@pytest.mark.parametrize(
    ("name", "args", "after"),
    [
        ("put", {"key": "n", "value": None}, {"n": None}),
        ("put", {"key": "c/a", "value": {"x": 1}}, {"n": 5, "c/a": {"x": 1}}),
        ("del", {"key": "n"}, {}),
        ("del", {"key": "m"}, {"n": 5}),
        ("inc", {"key": "n"}, {"n": 6}),
        ("inc", {"key": "n", "by": -2.5}, {"n": 2.5}),
        ("inc", {"key": "m", "by": 3}, {"n": 5, "m": 3}),
        ("append", {"key": "list", "item": [1]}, {"n": 5, "list": [[1]]}),
        ("patch", {"key": "n", "merge": {"a": 1}}, {"n": {"a": 1}}),
    ],
)
def test_a_built_in_mutator_has_its_documented_effect(name: str, args: Any, after: dict[str, Any]) -> None:
    draft = draft_on(n=5)
    BUILT_IN_MUTATORS[name](draft, args)
    present = {key: draft.get(key) for key, _ in draft.scan()}
    assert present == after


def test_append_adds_to_the_end() -> None:
    draft = draft_on(list=[1])
    BUILT_IN_MUTATORS["append"](draft, {"key": "list", "item": 2})
    BUILT_IN_MUTATORS["append"](draft, {"key": "list", "item": None})
    assert draft.get("list") == [1, 2, None]


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("put", None, "must be an object"),
        ("put", [1], "must be an object"),
        ("put", {"key": "a"}, "missing: value"),
        ("put", {}, "missing: key, value"),
        ("put", {"key": "a", "value": 1, "valeu": 2}, "unknown: valeu"),
        ("del", {}, "missing: key"),
        ("del", {"key": "a", "value": 1}, "unknown: value"),
        ("patch", {"key": "a"}, "missing: merge"),
        ("inc", {"key": "text"}, "needs numbers"),
        ("inc", {"key": "flag"}, "needs numbers"),
        ("inc", {"key": "a", "by": "1"}, "needs numbers"),
        ("inc", {"key": "a", "by": True}, "needs numbers"),
        ("inc", {"key": "a", "by": None}, "needs numbers"),
        ("append", {"key": "text", "item": 1}, "needs a list"),
        ("append", {"key": "a"}, "missing: item"),
    ],
)
def test_wrong_arguments_are_rejected_with_a_reason(name: str, args: Any, reason: str) -> None:
    draft = draft_on(text="text", flag=True)
    with pytest.raises(Rejected, match=reason):
        BUILT_IN_MUTATORS[name](draft, args)
    assert draft.changes == {}


# The examples of RFC 7396, appendix A: (target, patch, result).
RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "merge", "result"), RFC_7396)
def test_patch_is_json_merge_patch(target: Any, merge: Any, result: Any) -> None:
    draft = draft_on(a=target)
    BUILT_IN_MUTATORS["patch"](draft, {"key": "a", "merge": merge})
    assert draft.get("a") == result


def test_a_patch_of_a_missing_key_starts_from_an_empty_object() -> None:
    draft = draft_on()
    BUILT_IN_MUTATORS["patch"](draft, {"key": "a", "merge": {"x": {"y": 1, "z": None}}})
    assert draft.get("a") == {"x": {"y": 1}}
