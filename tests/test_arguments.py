"""A wrong argument is refused by an error that names the argument, before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

import stratalog
from stratalog import (
    Document,
    Invalid,
    LogSettings,
    MaintenancePolicy,
    Projection,
    RetentionPolicy,
    Rules,
    Settings,
    Store,
    merge,
    redact,
    replay,
    verify,
)
from stratalog.server import Quotas, ServerLimits
from stratalog.worker import WorkerSettings


@pytest.fixture
def document() -> Iterator[Document]:
    with stratalog.open("memory:") as store:
        yield store.create("acme", "plan")


@pytest.fixture
def store() -> Iterator[Store]:
    with stratalog.open("memory:") as store:
        yield store


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda document: merge("plan", document), "fork must be of type Document, not str"),
        (lambda document: merge(document, document.log), "target must be of type Document, not Log"),
        (lambda document: replay(document, None), "target must be of type Document, not NoneType"),
        (lambda document: verify("plan"), "document must be of type Document, not str"),
        (lambda document: redact(document.log, 1), "document must be of type Document, not Log"),
        (lambda document: Document("plan"), "log must be of type Log, not str"),
        (lambda document: Projection("plan", "sums", lambda entry: []), "log must be of type Log, not str"),
    ],
)
def test_an_object_of_a_wrong_class_is_a_type_error(
    call: Callable[[Document], object], message: str, document: Document
) -> None:
    with pytest.raises(TypeError) as failure:
        call(document)
    assert str(failure.value) == message
    assert document.version == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.delete("plan"), "document must be of type Document, not str"),
        (lambda store: store.delete_log("plan"), "log must be of type Log, not str"),
        (
            lambda store: store.fork_log(store.create("acme", "plan"), "fork", 0),
            "log must be of type Log, not Document",
        ),
        (lambda store: stratalog.maintain(store.environment), "store must be of type Store, not Environment"),
        (lambda store: stratalog.maintain(store, {"a": 1}), "policy must be of type MaintenancePolicy, not dict"),
        (lambda store: stratalog.open("memory:", rules={"a": 1}), "rules must be of type Rules, not dict"),
        (
            lambda store: stratalog.open("memory:", settings=Settings()),
            "settings must be of type LogSettings, not Settings",
        ),
    ],
)
def test_an_object_of_a_wrong_class_is_a_type_error_of_a_store(
    call: Callable[[Store], object], message: str, store: Store
) -> None:
    with pytest.raises(TypeError) as failure:
        call(store)
    assert str(failure.value) == message


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Rules, {"mutators": 5}),
        (Rules, {"mutators": {"add": "add"}}),
        (Rules, {"metadata_fields": "name"}),
        (Settings, {"log": 5}),
        (Settings, {"server": {"threads": "16"}}),
        (LogSettings, {"append_seconds_max": "10"}),
        (LogSettings, {"segment_entries_target": 0.5}),
        (Quotas, {"documents_max": True}),
        (ServerLimits, {"threads": None}),
        (WorkerSettings, {"receives_max": "5"}),
        (RetentionPolicy, {"retain_segments": 0}),
        (MaintenancePolicy, {"documents": {"retain_days": 5}}),
    ],
)
def test_a_field_of_a_wrong_type_is_a_type_error(kind: type[msgspec.Struct], fields: dict[str, object]) -> None:
    [name] = fields
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name} must be of type "):
        kind(**fields)


@pytest.mark.parametrize("name", [["acme"], {"acme": 1}, 5, None])
def test_a_name_that_is_no_text_is_invalid(name: object, store: Store) -> None:
    calls: list[Callable[[object, object], object]] = [store.document, store.create, store.log, store.create_log]
    for call in calls:
        with pytest.raises(Invalid, match="must be a text"):
            call(name, "plan")
        with pytest.raises(Invalid, match="must be a text"):
            call("acme", name)
    assert not store.is_contended(name, "plan")  # type: ignore[arg-type]


@pytest.mark.parametrize("time_ms", ["noon", None])
def test_a_time_that_is_no_number_is_invalid(time_ms: object, document: Document) -> None:
    with pytest.raises(Invalid, match="a time must be a number of milliseconds"):
        document.log.version_at(time_ms)  # type: ignore[arg-type]
