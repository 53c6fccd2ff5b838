"""A document and its views read like mappings. A document has a method for each built-in mutator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import stratalog
from stratalog.errors import Invalid, NotFound
from stratalog.log import Event
from stratalog.testing.clock import ManualClock


@pytest.fixture
def store() -> stratalog.Store:
    return stratalog.open("memory:", clock=ManualClock())


@pytest.fixture
def document(store: stratalog.Store) -> stratalog.Document:
    document = store.create("acme", "budget")
    document.put("cells/B1", "rent")
    document.put("cells/C2", 100, client="ada")
    return document


def test_a_document_reads_like_a_mapping_of_its_newest_version(document: stratalog.Document) -> None:
    assert document["cells/C2"] == 100
    assert "cells/C2" in document
    assert "cells/C3" not in document
    assert 7 not in document
    assert (len(document), list(document)) == (2, ["cells/B1", "cells/C2"])
    with pytest.raises(KeyError, match="cells/C3"):
        document["cells/C3"]


def test_a_view_is_a_mapping_of_its_version(document: stratalog.Document) -> None:
    document.delete("cells/B1")
    before, now = document.at(2), document.at()
    assert isinstance(before, Mapping)
    assert dict(before) == before.to_dict() == {"cells/B1": "rent", "cells/C2": 100}
    assert dict(before.items()) == dict(before)
    assert ("cells/C2", 100) in before.items()
    assert list(now.items()) == [("cells/C2", 100)]
    assert (len(before), len(now), list(now.keys()), list(now.values())) == (2, 1, ["cells/C2"], [100])
    with pytest.raises(KeyError):
        now["cells/B1"]


def test_a_dict_of_a_document_is_refused_and_names_the_view(document: stratalog.Document) -> None:
    for make in (dict, lambda mapping: {**mapping}):
        with pytest.raises(TypeError, match=r"dict\(document\.at\(\)\)"):
            make(document)


def test_a_document_has_no_attribute_with_the_name_of_another_method_of_a_mapping(
    document: stratalog.Document,
) -> None:
    """A document is no mapping, and the result of these methods could mix versions: a view has them."""
    assert [name for name in ("values", "items") if hasattr(document, name)] == []


def test_the_length_counts_keys_that_changed_after_a_snapshot(document: stratalog.Document) -> None:
    document.snapshot()
    document.delete("cells/B1")
    document.put("cells/D4", 1)
    document.put("cells/C2", 2)
    assert len(document) == len(dict(document.at())) == 2


def test_an_empty_document_has_no_keys_and_is_true(store: stratalog.Store) -> None:
    empty = store.create("acme", "empty")
    assert len(empty) == 0
    assert empty


def test_each_built_in_mutator_has_a_method(document: stratalog.Document) -> None:
    document.increment("cells/C2", 5, client="ada")
    document.increment("visits")
    document.patch("people/ada", {"name": "Ada", "fax": None})
    document.append("notes", "first")
    outcome = document.delete("cells/B1", client="ada", author="kim")
    assert dict(document.at()) == {
        "cells/C2": 105,
        "notes": ["first"],
        "people/ada": {"name": "Ada"},
        "visits": 1,
    }
    assert (outcome.client, outcome.id, outcome.status) == ("ada", 3, "applied")
    assert [version.author for version in document.versions(outcome.version - 1)] == ["kim"]  # type: ignore[operator]


def test_a_number_added_to_a_text_is_a_rejection_that_is_committed(document: stratalog.Document) -> None:
    outcome = document.increment("cells/B1")
    assert (outcome.status, outcome.version) == ("rejected", document.version)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("putt", {"key": "a", "value": 1}, "no such mutator mutator='putt' known='append, del, inc, patch, put'"),
        ("put", {"key": "a", "valeu": 1}, "an argument is missing: value mutator='put'"),
        ("inc", {"key": "a", "by": "1"}, "an argument must be a number: by mutator='inc'"),
        ("inc", {"key": "a", "bye": 1}, "an argument is unknown: bye mutator='inc'"),
        ("del", ["a"], "arguments must be an object mutator='del'"),
    ],
)
def test_a_misspelt_mutation_is_refused_and_not_committed(
    document: stratalog.Document, name: str, args: Any, message: str
) -> None:
    version = document.version
    with pytest.raises(Invalid, match=f"^{message}$"):
        document.mutate(name, args)
    assert document.version == version


def test_a_document_is_created_where_it_is_missing(store: stratalog.Store) -> None:
    with pytest.raises(NotFound):
        store.document("acme", "plan")
    created = store.document("acme", "plan", create=True)
    created.put("a", 1)
    assert store.document("acme", "plan", create=True) is created
    assert created["a"] == 1


def test_a_document_created_by_a_rival_during_a_create_is_returned(
    monkeypatch: pytest.MonkeyPatch, store: stratalog.Store
) -> None:
    create = stratalog.Store.create

    def create_late(late: stratalog.Store, organisation: str, name: str) -> stratalog.Document:
        create(late, organisation, name).put("a", 1)
        return create(late, organisation, name)

    monkeypatch.setattr(stratalog.Store, "create", create_late)
    assert store.document("acme", "plan", create=True)["a"] == 1


def test_a_deleted_document_is_gone_and_its_name_is_free(store: stratalog.Store, document: stratalog.Document) -> None:
    store.delete(document)
    with pytest.raises(NotFound):
        document.at()
    assert dict(store.create("acme", "budget").at()) == {}


def test_the_repr_of_a_handle_names_its_type_and_target(store: stratalog.Store, document: stratalog.Document) -> None:
    log = store.create_log("acme", "events")
    log.append(Event("seen", 1))
    projection = stratalog.Projection(log, "counts", lambda entry: [])
    shown = [repr(handle) for handle in (store, document, document.at(), log, store.records("acme"), projection)]
    assert shown == [
        "<Store memory:>",
        "<Document acme/budget>",
        "<View version=2>",
        "<Log acme/events>",
        "<Records acme>",
        "<Projection counts of <Log acme/events>>",
    ]


def test_a_merge_report_counts_applied_rejected_and_different_mutations(document: stratalog.Document) -> None:
    fork = document.fork("copy")
    fork.increment("cells/C2")
    fork.put("cells/D4", 4)
    fork.increment("cells/B1")
    document.put("cells/C2", 200)
    report = stratalog.merge(fork, document)
    assert (len(report), report.applied, report.rejected, report.different) == (3, 2, 1, 1)
    assert [replayed.name for replayed in report] == ["inc", "put", "inc"]
    assert document["cells/C2"] == 201
