"""Checkpoints: their text, their signatures, and proofs that a history continues a checkpoint."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.keys import entries_partition, number, record_key, record_partition
from stratalog.log import chain
from stratalog.log.retention import raise_floor
from stratalog.maintenance.checkpoint import (
    Checkpoint,
    StoreCheckpoint,
    checkpoint_of,
    checkpoints_of,
    merkle_root,
    prove_descent,
    read_checkpoint,
    read_line,
    read_lines,
)
from stratalog.maintenance.signed_note import (
    new_signing_key,
    open_note,
    read_signing_key,
    read_verifier_key,
    sign_note,
)
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.ports.index import Delete, Item, Put
from stratalog.records import chain as record_chain
from stratalog.records.floor import FLOOR_SORT
from stratalog.testing.clock import ManualClock

# The example in Go's golang.org/x/mod/sumdb/note. C2SP's signed notes have the same format.
SIGNING = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNATURE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
GOLDEN = Path(__file__).parents[2] / "formats" / "golden"
LOG = HistoryName("log", "acme", "events")
RECORD = HistoryName("record", "acme", "report")
both = pytest.mark.parametrize("history", [LOG, RECORD], ids=["log", "record"])


@pytest.fixture
def store() -> Iterator[stratalog.Store]:
    settings = stratalog.LogSettings(segment_entries_target=4)
    with stratalog.open("memory:", settings=settings, clock=ManualClock()) as opened:
        opened.create_log("acme", "events")
        grow(opened, 9)
        yield opened


def grow(store: stratalog.Store, count: int) -> None:
    log, records = store.log("acme", "events"), store.records("acme")
    for _ in range(count):
        records.put("report", store.environment.clock.random_bytes(8))
        log.append(stratalog.Event("seen", store.environment.clock.random_bytes(8)))


def rewrite(store: stratalog.Store, history: HistoryName, version: int) -> None:
    """Alter a log's version, or a record's versions from it on, and recompute the hashes, as an attacker could."""
    if history.kind == "record":
        _rewrite_record(store, history, version)
    else:
        _rewrite_log(store, history, version)


def _rewrite_log(store: stratalog.Store, history: HistoryName, version: int) -> None:
    log = store.log(history.organisation, history.name)
    before = log.hash_at(version - 1)
    for segment in range(1, log.head().version + 1):
        for item in list(store.environment.index.query(entries_partition(log.record.prefix, segment))):
            at: Any = dict(item.attributes)
            if int(item.sort) < version or "k" in at:
                continue
            at["a"] = "Eve" if int(item.sort) == version else at.get("a", "")
            digest = chain.body_digest(at["s"], hashlib.sha256(at["b"]).digest())
            before = at["h"] = chain.link(before, int(item.sort), at["c"], "", at["a"], at["w"], digest)
            store.environment.index.commit([Put(Item(item.partition, item.sort, at))])


def _rewrite_record(store: stratalog.Store, history: HistoryName, version: int) -> None:
    partition = record_partition(history.organisation, record_key(history.name))
    before = store.records(history.organisation).stat(history.name, version - 1).hash
    for item in list(store.environment.index.query(partition, after=number(version - 1))):
        at: Any = {**item.attributes, "p": "eve"}
        before = at["ch"] = record_chain.chained(before, int(item.sort), at)
        store.environment.index.commit([Put(Item(partition, item.sort, at))])


def test_a_signed_note_equals_the_published_example_of_the_format() -> None:
    key = read_signing_key(SIGNING)
    assert (str(key.verifier), key.encoded()) == (VERIFIER, SIGNING)
    note = sign_note(TEXT, key)
    assert note == f"{TEXT}\n{SIGNATURE}"
    assert open_note(note, read_verifier_key(VERIFIER)) == TEXT


def test_a_note_that_the_key_did_not_sign_is_refused() -> None:
    note = sign_note(TEXT, read_signing_key(SIGNING))
    other = new_signing_key(ManualClock(seed=5), "PeterNeumann").verifier
    for forged, key in ((note, other), (note.replace("answer", "problem"), read_verifier_key(VERIFIER))):
        with pytest.raises(stratalog.Invalid):
            open_note(forged, key)
    for text in ("", TEXT, f"{TEXT}\nno signature\n", VERIFIER):
        with pytest.raises(stratalog.Invalid):
            open_note(text, None)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_note_with_an_invalid_signature_beside_the_valid_one_is_refused(is_first: bool) -> None:
    """The specification asks a reader to refuse the whole note."""
    other = sign_note("another text\n", read_signing_key(SIGNING)).rpartition("\n\n")[2]
    signatures = [other, SIGNATURE] if is_first else [SIGNATURE, other]
    with pytest.raises(stratalog.Invalid, match="not valid"):
        open_note(f"{TEXT}\n{''.join(signatures)}", read_verifier_key(VERIFIER))


def test_a_signature_cannot_be_verified_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cryptography.exceptions", "cryptography.hazmat.primitives.asymmetric"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "stratalog\[checkpoint\]"'):
        open_note(f"{TEXT}\n{SIGNATURE}", read_verifier_key(VERIFIER))


@pytest.mark.parametrize("text", ["", "x", "PRIVATE+KEY+a+00+AA==", VERIFIER.replace("c74f", "c74e"), SIGNING[:-8]])
def test_a_damaged_key_is_refused(text: str) -> None:
    for read in (read_signing_key, read_verifier_key):
        with pytest.raises(stratalog.Invalid):
            read(text)


def test_a_key_s_name_has_no_space_and_no_plus_sign() -> None:
    for name in ("", "a b", "a+b"):
        with pytest.raises(stratalog.Invalid):
            new_signing_key(ManualClock(), name)


NAMES = st.text(min_size=1, max_size=20)
CHECKPOINTS = st.builds(
    Checkpoint,
    st.builds(HistoryName, st.sampled_from(["log", "record"]), NAMES, NAMES),
    st.text(min_size=1, max_size=20),
    st.integers(min_value=0, max_value=2**53 - 1),
    st.binary(min_size=32, max_size=32),
)


@given(CHECKPOINTS)
def test_a_checkpoint_survives_a_round_trip_through_its_text(checkpoint: Checkpoint) -> None:
    assert read_checkpoint(checkpoint.text()) == checkpoint
    listed = StoreCheckpoint(1, merkle_root([checkpoint.line()]))
    assert read_lines(listed, checkpoint.line()) == [checkpoint]


@given(st.lists(st.text(max_size=5), max_size=20), st.lists(st.text(max_size=5), max_size=20))
def test_two_lists_have_the_same_merkle_root_only_if_their_lines_are_equal(lines: list[str], drawn: list[str]) -> None:
    for others in (drawn, [*lines], lines[:-1], lines + lines[-1:], lines[::-1]):
        assert (merkle_root(lines) == merkle_root(others)) == (lines == others)


def test_the_root_is_hashed_as_in_rfc_6962() -> None:
    a, b, c = (hashlib.sha256(b"\0" + text).digest() for text in (b"a", b"b", b"c"))
    ab = hashlib.sha256(b"\1" + a + b).digest()
    assert merkle_root(["a", "b", "c"]) == hashlib.sha256(b"\1" + ab + c).digest()
    assert merkle_root([]) == hashlib.sha256(b"").digest()


def test_the_golden_checkpoint_still_reads() -> None:
    text = open_note((GOLDEN / "checkpoint-v1.txt").read_text(), read_verifier_key(VERIFIER))
    history = HistoryName("log", "acme & co", "plan/é")
    assert read_checkpoint(text) == Checkpoint(history, "cghdvuklup5k26ic2uixcgcc", 7, bytes(range(32)))
    assert sign_note(text, read_signing_key(SIGNING)) == (GOLDEN / "checkpoint-v1.txt").read_text()


@both
def test_a_history_with_versions_after_the_checkpoint_is_proven(store: stratalog.Store, history: HistoryName) -> None:
    checkpoint = checkpoint_of(store, history)
    assert prove_descent(store, checkpoint).status == "proven"
    grow(store, 5)
    descent = prove_descent(store, checkpoint)
    assert (descent.status, descent.report and descent.report.chain.version) == ("proven", 14)


@both
def test_a_rewritten_history_contradicts_its_checkpoint(store: stratalog.Store, history: HistoryName) -> None:
    checkpoint = checkpoint_of(store, history)
    rewrite(store, history, 4)
    assert verify_history(store, history).findings == ()
    assert prove_descent(store, checkpoint).status == "contradicted"


@both
def test_a_truncated_history_contradicts_its_checkpoint(store: stratalog.Store, history: HistoryName) -> None:
    checkpoint = checkpoint_of(store, history)
    prefix = entries_partition(store.log("acme", "events").record.prefix, 9)
    partition = prefix if history is LOG else record_partition("acme", record_key("report"))
    store.environment.index.commit([Delete(partition, number(9))])
    assert verify_history(store, history).findings == ()
    descent = prove_descent(store, checkpoint)
    assert (descent.status, descent.reason) == ("contradicted", "the history ends at version 8")


@both
def test_a_checkpoint_below_the_floor_is_not_provable(store: stratalog.Store, history: HistoryName) -> None:
    old = checkpoint_of(store, history)
    grow(store, 6)
    later = checkpoint_of(store, history)
    raise_floor(store.log("acme", "events"), 12)
    store.records("acme").prune("report", retain=2)
    assert prove_descent(store, old).status == "not-provable"
    assert prove_descent(store, later).status == "proven"


@both
def test_a_checkpoint_at_the_floor_is_proven_by_its_hash(store: stratalog.Store, history: HistoryName) -> None:
    checkpoint = checkpoint_of(store, history)
    grow(store, 3)
    raise_floor(store.log("acme", "events"), 9)
    store.records("acme").prune("report", retain=3)
    assert prove_descent(store, checkpoint).status == "proven"
    forged = msgspec.structs.replace(checkpoint, hash=bytes(32))
    assert prove_descent(store, forged).status == "contradicted"


@both
@pytest.mark.parametrize("at_floor", [False, True], ids=["above the floor", "at the floor"])
def test_a_checkpoint_whose_version_is_forgotten_during_the_proof_is_not_provable(
    store: stratalog.Store, history: HistoryName, at_floor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(version: int) -> None:
        raise_floor(store.log("acme", "events"), version)
        store.records("acme").prune("report", retain=store.log("acme", "events").head().version - version)

    def verify_then_forget(*arguments: Any, **options: Any) -> Any:
        report = verify_history(*arguments, **options)
        forget(11)
        return report

    checkpoint = checkpoint_of(store, history)
    grow(store, 3)
    if at_floor:
        forget(9)
    monkeypatch.setattr("stratalog.maintenance.checkpoint.verify_history", verify_then_forget)
    assert prove_descent(store, checkpoint).status == "not-provable"


def damage(store: stratalog.Store, history: HistoryName, version: int, changes: dict[str, Any]) -> None:
    """Change attributes of a version; None removes an attribute. Without changes, remove the version."""
    log, index = store.log("acme", "events"), store.environment.index
    for first in range(version, 0, -1):
        of_log = entries_partition(log.record.prefix, first)
        item = index.get(of_log if history is LOG else record_partition("acme", record_key("report")), number(version))
        if item is not None and "k" not in item.attributes:
            break
    assert item is not None
    attributes = {name: value for name, value in {**item.attributes, **changes}.items() if value is not None}
    write = Put(Item(item.partition, item.sort, attributes)) if changes else Delete(item.partition, item.sort)
    index.commit([write])


@both
@pytest.mark.parametrize("changed", [None, bytes(32)], ids=["unreadable", "altered"])
def test_a_damaged_hash_of_the_checkpoint_s_version_is_a_finding_and_no_contradiction(
    store: stratalog.Store, history: HistoryName, changed: bytes | None
) -> None:
    checkpoint = checkpoint_of(store, history)
    grow(store, 3)
    damage(store, history, 9, {"h" if history is LOG else "ch": changed})
    descent = prove_descent(store, checkpoint)
    assert (descent.status, descent.reason) == ("not-provable", "version 9 is damaged")
    assert descent.report is not None
    assert [finding.version for finding in descent.report.findings] == [9]


@both
def test_a_missing_version_between_others_is_a_finding_and_no_contradiction(
    store: stratalog.Store, history: HistoryName
) -> None:
    checkpoint = checkpoint_of(store, history)
    grow(store, 3)
    damage(store, history, 9, {})
    assert prove_descent(store, checkpoint).status == "not-provable"


def test_a_checkpoint_is_proven_below_a_damaged_head_and_is_not_provable_above(store: stratalog.Store) -> None:
    old = checkpoint_of(store, LOG)
    grow(store, 3)
    damage(store, LOG, 12, {"c": None})
    assert prove_descent(store, old).status == "proven"
    for version in (12, 13):
        later = msgspec.structs.replace(old, version=version)
        assert prove_descent(store, later).status == "not-provable"


@pytest.mark.parametrize("origin", [None, "another"])
def test_a_damaged_origin_of_a_record_is_a_finding_and_no_contradiction(
    store: stratalog.Store, origin: str | None
) -> None:
    checkpoint = checkpoint_of(store, RECORD)
    damage(store, RECORD, 1, {"og": origin})
    descent = prove_descent(store, checkpoint)
    assert descent.status == "not-provable"
    assert descent.report is not None
    assert [finding.version for finding in descent.report.findings] == [1]


def test_a_damaged_hash_at_the_floor_is_a_finding_and_no_contradiction(store: stratalog.Store) -> None:
    checkpoint = checkpoint_of(store, RECORD)
    grow(store, 3)
    store.records("acme").prune("report", retain=3)
    partition = record_partition("acme", record_key("report"))
    floor = store.environment.index.get(partition, FLOOR_SORT)
    assert floor is not None
    store.environment.index.commit([Put(Item(partition, FLOOR_SORT, {**floor.attributes, "ch": bytes(32)}))])
    assert prove_descent(store, checkpoint).status == "not-provable"


def test_a_listed_record_without_versions_contradicts_its_checkpoint(store: stratalog.Store) -> None:
    checkpoint = checkpoint_of(store, RECORD)
    for version in range(1, 10):
        damage(store, RECORD, version, {})
    descent = prove_descent(store, checkpoint)
    assert (descent.status, descent.reason) == ("contradicted", "the history ends at version 0")


def test_a_record_without_a_readable_origin_has_no_checkpoint(store: stratalog.Store) -> None:
    damage(store, RECORD, 1, {"og": None})
    with pytest.raises(stratalog.Corrupt):
        checkpoint_of(store, RECORD)


def test_a_deleted_or_recreated_log_contradicts_the_checkpoint(store: stratalog.Store) -> None:
    checkpoint = checkpoint_of(store, LOG)
    store.delete_log(store.log("acme", "events"))
    assert prove_descent(store, checkpoint).status == "contradicted"
    store.create_log("acme", "events")
    assert prove_descent(store, checkpoint).reason == "the store holds another history, with another origin"


def test_a_fork_is_proven_against_the_checkpoint_of_its_parent(store: stratalog.Store) -> None:
    checkpoint = checkpoint_of(store, LOG)
    store.fork_log(store.log("acme", "events"), "copy", 9)
    assert prove_descent(store, checkpoint, HistoryName("log", "acme", "copy")).status == "proven"


def test_an_empty_log_has_a_checkpoint_too(store: stratalog.Store) -> None:
    log = store.create_log("acme", "empty")
    checkpoint = checkpoint_of(store, HistoryName("log", "acme", "empty"))
    log.append(stratalog.Event("seen", 1))
    assert prove_descent(store, checkpoint).status == "proven"


def test_a_list_of_checkpoints_that_does_not_match_the_merkle_root_is_refused(store: stratalog.Store) -> None:
    lines = [checkpoint.line() for checkpoint in checkpoints_of(store)]
    noted = StoreCheckpoint(len(lines), merkle_root(lines))
    assert [checkpoint.history for checkpoint in read_lines(noted, "\n".join(lines))] == [LOG, RECORD]
    for forged in (lines[:1], lines[::-1], [*lines, lines[0]]):
        with pytest.raises(stratalog.Invalid):
            read_lines(noted, "\n".join(forged))


@pytest.mark.parametrize("text", ["", "stratalog checkpoint 2\n", "stratalog store checkpoint 1\nx\ny\n"])
def test_a_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(stratalog.Invalid):
        read_checkpoint(text)


@pytest.mark.parametrize("count", ["٣", "²", "-1", "1" * 5_000])
def test_the_history_count_of_a_store_checkpoint_must_be_ascii_digits(count: str) -> None:
    root = base64.b64encode(bytes(32)).decode()
    assert read_checkpoint(f"stratalog store checkpoint 1\n7\n{root}\n") == StoreCheckpoint(7, bytes(32))
    with pytest.raises(stratalog.Invalid):
        read_checkpoint(f"stratalog store checkpoint 1\n{count}\n{root}\n")


@pytest.mark.parametrize("root", ["é", "A", "AAAA", "A" * 43 + "!"])
def test_the_root_of_a_store_checkpoint_must_be_a_hash_in_base64(root: str) -> None:
    with pytest.raises(stratalog.Invalid):
        read_checkpoint(f"stratalog store checkpoint 1\n7\n{root}\n")


@pytest.mark.parametrize("version", ["-1", "+1", "1_0", "٣", ""])
def test_the_version_of_a_checkpoint_must_be_ascii_digits(store: stratalog.Store, version: str) -> None:
    noted = checkpoint_of(store, LOG)
    fields = noted.line().split(" ")
    assert fields[3] == str(noted.version)
    with pytest.raises(stratalog.Invalid):
        read_line(" ".join([*fields[:3], version, *fields[4:]]))
