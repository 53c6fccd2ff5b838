"""A record's id is any text of up to 1,000 bytes, of any script, on every backend."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.keys import record_key, record_owner, record_partition
from stratalog.limits import BLOB_KEY_BYTES_MAX, ID_ESCAPED_BYTES_MAX, RECORD_ID_BYTES_MAX
from stratalog.log.callbacks import never
from stratalog.maintenance.collection import collect
from tests.records.helpers import World

LARGE = Random(7).randbytes(20_000)
FILE_NAME_BYTES_MAX = 255
# Letters of one to four bytes, characters with a meaning in keys and paths, and the ends of Unicode ranges.
ALPHABETS = (
    "abcXYZ019",
    "äßñéÿ",
    "абвгд",
    "ابتثج",
    "漢字計画表",
    "한국어",
    "𠀀𠮷🐈🎉",
    "/%~!@.._-+ ",
    "\0\x01\n\x7f\x85\xa0\u2028\ud7ff\ue000\ufffd\ufffe\uffff\U0010ffff",
    "e\u0301é",
)


def random_id(random: Random) -> str:
    """An id from a few alphabets, of any length up to the limit, mostly short or very long."""
    alphabet = "".join(random.sample(ALPHABETS, random.randint(1, 3)))
    wanted = random.choice((random.randint(1, 20), random.randint(1, 1000), 1000))
    text, size = "", 0
    while size < wanted:
        character = random.choice(alphabet)
        size += len(character.encode())
        if size > RECORD_ID_BYTES_MAX:
            break
        text += character
    return text or "x"


@pytest.mark.parametrize("seed", range(3))
def test_records_with_arbitrary_ids_are_separate_and_in_order_and_have_no_garbage(world: World, seed: int) -> None:
    random = Random(seed)
    ids = {random_id(random) for _ in range(24)}
    ids |= {id[: random.randint(1, len(id))] for id in ids}
    for id in ids:
        assert world.records.put(id, id.encode()).version == 1
        assert world.records.put(id, LARGE + id.encode()).version == 2
    for id in ids:
        assert [world.records.get(id, version).body for version in (1, 2)] == [id.encode(), LARGE + id.encode()]
    _check_lists(world, ids, random)
    world.pass_seconds()
    report = collect(world.environment, world.organisation, stop=never)
    assert (report.garbage, report.failures) == ((), ())


def _check_lists(world: World, ids: set[str], random: Random) -> None:
    wanted = sorted(ids, key=str.encode)
    assert [line.id for line in world.records.list()] == wanted
    for id in random.sample(wanted, 8):
        prefix = id[: random.randint(1, len(id))]
        assert [line.id for line in world.records.list(prefix=prefix)] == [x for x in wanted if x.startswith(prefix)]
        assert [line.id for line in world.records.list(id)] == [x for x in wanted if x.encode() > id.encode()]
        both = world.records.list(id, prefix=id[0])
        assert [line.id for line in both] == [x for x in wanted if x.startswith(id[0]) and x.encode() > id.encode()]


def test_failures_of_records_with_the_longest_ids_are_listed_and_resolved(world: World) -> None:
    ids = ["漢" * 333, "漢" * 332 + "字", "short"]
    records = world.records
    for id in ids:
        for number in range(5):
            records.fail(id, f"failure {number}", body=LARGE + id.encode())
    assert [letter.id for letter in records.dead_letters()] == sorted(ids, key=str.encode)
    assert [letter.id for letter in records.dead_letters(ids[1])] == [ids[0]]
    for id in ids:
        assert b"".join(records.open_dead_letter(id)) == LARGE + id.encode()
    world.pass_seconds()
    # All failures of one id have the same body and so share one blob. The stored failure refers to that blob.
    assert collect(world.environment, world.organisation, stop=never).garbage == ()
    records.resolve_dead_letter(ids[0])
    assert records.failure(ids[0]) is None
    assert records.failure(ids[1]) is not None
    assert [letter.id for letter in records.dead_letters()] == ["short", ids[1]]


def test_the_blobs_of_a_long_id_are_collected_when_nothing_refers_to_them(world: World) -> None:
    id = "計画" * 160
    world.records.put(id, LARGE)
    world.records.put(id, LARGE + b"2")
    world.records.prune(id, retain=1)
    world.pass_seconds()
    world.records.free(id)
    world.pass_seconds()
    owner = record_owner(world.organisation, record_key(id))
    assert len(list(world.blobs.list(f"{owner}/"))) == 1
    assert world.records.get(id).body == LARGE + b"2"


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400).filter(
    lambda text: len(text.encode()) <= RECORD_ID_BYTES_MAX
)


@given(texts, texts)
def test_distinct_ids_never_share_a_key_of_a_record(first: str, second: str) -> None:
    assert (record_partition("o", record_key(first)) == record_partition("o", record_key(second))) == (first == second)


@given(texts.map(lambda text: text * (1000 // len(text.encode()))))
def test_a_record_s_key_is_one_component_that_fits_a_path_and_a_bucket(id: str) -> None:
    key = record_key(id)
    assert len(key.encode()) <= ID_ESCAPED_BYTES_MAX < FILE_NAME_BYTES_MAX
    assert not key.startswith(".")
    assert not set(key) & set("/@!\\\0 :")
    assert len(f"{record_owner('x' * 200, key)}/bodies/{'0' * 64}".encode()) <= BLOB_KEY_BYTES_MAX


@given(texts)
def test_an_id_that_equals_a_shortened_key_has_a_different_key(id: str) -> None:
    assert record_key(record_key("漢" * 333)) != record_key("漢" * 333)
    if "~" in record_key(id):
        assert record_key(id) != record_key(record_key(id))
