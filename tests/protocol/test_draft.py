"""The draft: the reads and writes of a mutator."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.codec import encode
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import VALUE_BYTES_MAX
from stratalog.protocol import Draft
from stratalog.protocol import draft as draft_module


def draft_on(**below: Any) -> Draft:
    stored = {key.replace("_", "/"): encode(value) for key, value in below.items()}
    return Draft(stored.get, lambda prefix: iter(sorted(key for key in stored if key.startswith(prefix))))


def test_a_draft_reads_the_stored_value_until_a_change() -> None:
    draft = draft_on(a=1, b=2)
    assert (draft.get("a"), draft.get("c"), draft.get("c", 7)) == (1, None, 7)
    draft.put("a", 5)
    assert draft.delete("b") is True
    assert (draft.get("a"), draft.get("b", "gone")) == (5, "gone")


def test_deleting_a_missing_key_adds_no_change() -> None:
    draft = draft_on(a=1)
    assert draft.delete("b") is False
    assert draft.delete("a") is True
    assert draft.delete("a") is False
    assert draft.changes == {"a": None}


def test_a_draft_returns_and_stores_copies_of_values() -> None:
    draft = draft_on(a={"list": [1]})
    draft.get("a")["list"].append(2)
    value = {"x": [1]}
    draft.put("b", value)
    value["x"].append(2)
    draft.get("b")["x"].append(3)
    assert (draft.get("a"), draft.get("b")) == ({"list": [1]}, {"x": [1]})


def test_a_scan_overlays_the_changes_in_order_of_key() -> None:
    draft = draft_on(c_a=1, c_c=3, c_e=5, d_a=9)
    draft.put("c/b", 2)
    draft.put("c/c", 33)
    draft.delete("c/e")
    assert list(draft.scan("c/")) == [("c/a", 1), ("c/b", 2), ("c/c", 33)]
    assert [key for key, _ in draft.scan()] == ["c/a", "c/b", "c/c", "d/a"]


def test_a_draft_can_be_changed_during_a_scan() -> None:
    draft = draft_on(c_a=1, c_b=2)
    for key, value in draft.scan("c/"):
        draft.put(key, value + 1)
        draft.put(f"c/z{key[-1]}", 0)
    assert dict(draft.scan("c/")) == {"c/a": 2, "c/b": 3, "c/za": 0, "c/zb": 0}


def test_a_parent_sees_the_changes_of_a_child_only_after_the_merge() -> None:
    parent = draft_on(c_a=1, c_b=2)
    parent.delete("c/a")
    child = parent.child()
    child.put("c/a", 10)
    child.delete("c/b")
    assert list(child.scan()) == [("c/a", 10)]
    assert list(parent.scan()) == [("c/b", 2)]
    parent.merge(child)
    assert list(parent.scan()) == [("c/a", 10)]


def test_keys_beyond_the_basic_plane_are_in_the_order_of_their_utf_8_bytes() -> None:
    draft = draft_on(**{"\uffff": 1, "\U00010000": 2})
    draft.put("\ue000", 3)
    assert [key for key, _ in draft.scan()] == sorted(["\uffff", "\U00010000", "\ue000"], key=lambda key: key.encode())


@pytest.mark.parametrize("key", ["", "\0c/x", "/x", "\udc80", 3, None])
def test_a_bad_key_is_invalid_for_every_call(key: Any) -> None:
    draft = draft_on()
    for call in (draft.get, draft.delete, lambda bad: draft.put(bad, 1)):
        with pytest.raises(Invalid):
            call(key)
    assert draft.changes == {}


@pytest.mark.parametrize("value", [float("inf"), -(2**53), "\ud800", {1: 1}, set(), object()])
def test_an_unsupported_value_is_invalid(value: Any) -> None:
    with pytest.raises(Invalid):
        draft_on().put("a", value)


def test_a_float_without_a_fraction_is_stored_as_an_integer() -> None:
    draft = draft_on()
    draft.put("a", 2.0)
    assert draft.changes["a"] == encode(2)


def test_a_value_over_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_module, "VALUE_BYTES_MAX", 100)
    draft = draft_on()
    draft.put("a", "x" * 98)
    with pytest.raises(LimitExceeded) as caught:
        draft.put("a", "x" * 99)
    assert (caught.value.details["limit"], caught.value.details["value"]) == (100, 101)
    assert VALUE_BYTES_MAX == 64 * 1024 * 1024
