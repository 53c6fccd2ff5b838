"""The codec accepts values of JSON's types, bytes, and subtypes. Its quick and its slow check give the same results."""

from __future__ import annotations

import hashlib
import math
import struct
from collections import OrderedDict, defaultdict, namedtuple
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.codec import canonical, compress_quickly, decompress, encode, encode_checked, json_reason, sha256
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import INTEGER_MAX, JSON_DEPTH_MAX
from stratalog.log.entries import Event, encode_events

# The codec runs the slow check on a value that contains a float without a fraction.
CLOSER = 2.0


class Text(str):
    __slots__ = ()


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Kind(Enum):
    FIRST = "one"


class Plain(msgspec.Struct):
    a: int = 1


Pair = namedtuple("Pair", "first second")

DERIVED: list[tuple[Any, Any]] = [
    (Text("x"), "x"),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (Pair(1, "b"), [1, "b"]),
    ((1, 2), [1, 2]),
    (bytearray(b"x"), b"x"),
    (memoryview(b"x"), b"x"),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (defaultdict(int, a=1), {"a": 1}),
    ({Colour.RED: 1, Text("t"): 2}, {"red": 1, "t": 2}),
]
NOT_VALUES: list[Any] = [
    math.nan,
    math.inf,
    {1, 2},
    Decimal("1"),
    UUID(int=7),
    datetime(2026, 1, 1, tzinfo=UTC),
    Kind.FIRST,
    Plain(),
    object(),
    {1: "a"},
    {None: 1},
    {b"a": 1},
    "\ud800",
    INTEGER_MAX + 1,
    -(2**70),
    msgspec.Raw(b"\x01"),
    msgspec.msgpack.Ext(5, b"a"),
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-INTEGER_MAX, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(),
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def is_plain(value: Any) -> bool:
    """Return whether a value consists only of the exact built-in types."""
    if type(value) is dict:
        return all(type(name) is str and is_plain(item) for name, item in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str, bytes)


@pytest.mark.parametrize(("value", "plain"), DERIVED, ids=lambda value: type(value).__name__)
def test_a_value_of_a_subtype_is_stored_as_its_base_type(value: Any, plain: Any) -> None:
    for entered, expected in ((value, plain), ([value], [plain]), ([value, CLOSER], [plain, 2])):
        stored = canonical(entered)
        assert stored == expected
        assert is_plain(stored)
        assert encode_events([Event("e", entered)]) == encode([["e", expected, 1]])


@pytest.mark.parametrize("value", NOT_VALUES, ids=lambda value: type(value).__name__)
def test_an_unsupported_value_is_refused_at_any_depth(value: Any) -> None:
    for entered in (value, [value], [value, CLOSER], {"a": {"b": [value]}}):
        with pytest.raises(Invalid):
            canonical(entered)
        with pytest.raises(Invalid):
            encode_events([Event("e", entered)])


@pytest.mark.parametrize("rest", [[], [CLOSER]])
def test_the_quick_and_the_slow_check_limit_nesting_to_the_same_depth(rest: list[Any]) -> None:
    deep: Any = rest
    for _ in range(JSON_DEPTH_MAX - 1):
        deep = [deep]
    assert canonical(deep)
    with pytest.raises(LimitExceeded, match=f"limit={JSON_DEPTH_MAX}"):
        canonical([deep])


@given(
    st.lists(st.sampled_from([bytes([letter]) * size for letter in b"ab" for size in (0, 1023, 1024, 65536, 65537)]))
)
def test_repeated_bodies_have_their_sha_256_hash(bodies: list[bytes]) -> None:
    assert [sha256(body) for body in bodies] == [hashlib.sha256(body).digest() for body in bodies]


def test_a_changed_bytearray_has_a_different_hash() -> None:
    body = bytearray(2048)
    before = sha256(body)
    body[0] = 1
    assert sha256(body) != before


@given(st.sampled_from([0, 1, 512, 16 * 1024, 16 * 1024 + 1, 70_000]), st.binary(min_size=1, max_size=64))
def test_quickly_compressed_content_is_decompressed_unchanged(size: int, piece: bytes) -> None:
    content = (piece * (size // len(piece) + 1))[:size]
    assert decompress(compress_quickly(content), size) == content


def test_a_canonical_copy_shares_no_mutable_object_with_its_source() -> None:
    value: dict[str, Any] = {"list": [1], "object": {"a": 1}}
    copy = canonical(value)
    value["list"].append(2)
    value["object"]["a"] = 2
    assert copy == {"list": [1], "object": {"a": 1}}


@given(values)
def test_the_quick_and_the_slow_check_give_the_same_result(value: Any) -> None:
    quick, closer = canonical([value]), canonical([value, CLOSER])
    assert encode(quick[0]) == encode(closer[0])
    assert encode_events([Event("e", value)]) == encode([["e", quick[0], 1]])
    assert encode(canonical(quick)) == encode(quick)


EDGES = [0.0, -0.0, 1.0, -1.0, 1.5, 12.5, 2.0**31, 2.0**53 - 1, -(2.0**53) + 1, 2.0**53, 2.0**64, 1e300, 5e-324]
EDGES += [math.inf, -math.inf, math.nan, -math.nan]
floats = st.floats() | st.integers(-(2**70), 2**70).map(float) | st.integers().map(lambda eighths: eighths % 10**9 / 8)
# An encoded float starts with the byte 0xCB. U+02C0 and U+02FF start with this byte, and the integer 0xCB ends with it.
lookalikes = st.text("\u02c0\u02ff@C0") | st.just(0xCB) | st.integers(0, 2**32)


@given(st.lists(st.sampled_from(EDGES) | floats | lookalikes))
def test_the_quick_and_the_slow_check_accept_and_refuse_the_same_floats(numbers: list[Any]) -> None:
    assert stored_or_refused(numbers) == stored_or_refused([*numbers, CLOSER])


@pytest.mark.parametrize("bits", ["7ff0000000000000", "7ff0000000000001", "7ff8000000000000", "ffffffffffffffff"])
def test_the_quick_check_refuses_numbers_that_are_not_finite(bits: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    with pytest.raises(Invalid):
        encode_checked([1.5, {"number": number}])
    with pytest.raises(Invalid):
        encode_events([Event("e", [1.5, number])])


def stored_or_refused(numbers: list[Any]) -> Any:
    """Return the encoded numbers except `CLOSER`, or the error's class."""
    try:
        checked = canonical(numbers)
        assert encode_checked(numbers) == encode(checked)
        return [encode(number) for number in checked if number != CLOSER]
    except Invalid as exc:
        return type(exc)


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        (r'"\ud800"', 1),
        (r'{"a":"\uD83D\ude00\\\udbff"}', 20),
        (r'["\ud800\n"]', 2),
        (r'["\ud800\\"]', 2),
    ],
)
def test_the_reason_for_a_lone_surrogate_near_the_end_of_a_text_names_the_surrogate(text: str, byte: int) -> None:
    with pytest.raises(msgspec.DecodeError, match="truncated") as raised:
        msgspec.json.decode(text)
    expected = f"a string has a lone surrogate (byte {byte})"
    assert (json_reason(text, raised.value), json_reason(text.encode(), raised.value)) == (expected, expected)


@pytest.mark.parametrize(
    "text", [r'"\ud83d', r'"\ud83d\ud', r'"\ud83d\ude0', r'["\ud83d\ude00"', r'["\\ud800"', "[", '"\ud800']
)
def test_the_reason_for_a_text_that_is_cut_short_stays(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeError)) as raised:
        msgspec.json.decode(text)
    assert json_reason(text, raised.value) == str(raised.value)
