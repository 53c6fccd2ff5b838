"""A wrong argument is refused by an error that names the argument, before anything is done."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog import (
    Document,
    Event,
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
from stratalog.arguments import CheckedStruct
from stratalog.clock import SystemClock
from stratalog.log import Environment, create_log
from stratalog.server import Application, Quotas, ServerLimits, create_app
from stratalog.worker import Worker, WorkerSettings


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
        (lambda document: Document(document.log, {}), "rules must be of type Rules, not dict"),
        (lambda document: Projection("plan", "sums", lambda entry: []), "log must be of type Log, not str"),
        (lambda document: projected(document, None), "the result of project must be of type Iterable, not NoneType"),
        (
            lambda document: projected(document, ["plan"]),
            "a write of project must be of type Put | Delete | Check, not str",
        ),
    ],
)
def test_an_object_of_a_wrong_class_is_a_type_error(
    call: Callable[[Document], object], message: str, document: Document
) -> None:
    with pytest.raises(TypeError) as failure:
        call(document)
    assert str(failure.value) == message
    assert document.version == 0


def projected(document: Document, result: Any) -> None:
    """Project one entry, by a function with this result."""
    log = create_log(document.log.environment, "acme", "orders")
    log.append(Event("order"))
    Projection(log, "sums", lambda entry: result).catch_up()


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
        (lambda store: stratalog.maintain(store, {}), "policy must be of type MaintenancePolicy, not dict"),
        (lambda store: stratalog.open("memory:", rules={"a": 1}), "rules must be of type Rules, not dict"),
        (lambda store: stratalog.open("memory:", rules={}), "rules must be of type Rules, not dict"),
        (lambda store: stratalog.open("memory:", settings=0), "settings must be of type LogSettings, not int"),
        (lambda store: Store(store.environment, store.queue, {}), "rules must be of type Rules, not dict"),
        (
            lambda store: Environment(store.environment.index, store.environment.blobs, SystemClock(), {}),
            "settings must be of type LogSettings, not dict",
        ),
        (
            lambda store: list(store.records("acme").put_many([("r", b"body")])),
            "body must be of type NewBody, not tuple",
        ),
        (lambda store: list(store.records("acme").put_many({"r": b"body"})), "body must be of type NewBody, not str"),
        (lambda store: Worker("store"), "store must be of type Store, not str"),
        (lambda store: Worker(store, {}), "settings must be of type WorkerSettings, not dict"),
        (lambda store: create_app("store"), "store must be of type Store, not str"),
        (lambda store: create_app(store, {}), "application must be of type Application, not dict"),
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
    ("kind", "fields", "message"),
    [
        (Rules, {"mutators": [1]}, "Rules.mutators must be of type Mapping, not list"),
        (Rules, {"mutators": {"add": "+"}}, "Rules.mutators['add'] is not valid: Expected `Callable`, got `str`"),
        (Rules, {"metadata_fields": "id"}, "Rules.metadata_fields is not valid: Expected `list`, got `str`"),
        (Settings, {"log": 5}, "Settings.log must be of type Mapping, not int"),
        (Settings, {"log": {5: 5}}, "a key of Settings.log must be of type str, not int"),
        (Settings, {"log": {"a": "5"}}, "Settings.log['a'] is not valid: Expected `int | float`, got `str`"),
        (WorkerSettings, {"messages_max": {}}, "WorkerSettings.messages_max is not valid: Expected `int`, got `dict`"),
        (
            LogSettings,
            {"append_seconds_max": "10"},
            "LogSettings.append_seconds_max is not valid: Expected `float`, got `str`",
        ),
        (
            LogSettings,
            {"segment_entries_target": 0.5},
            "LogSettings.segment_entries_target is not valid: Expected `int`, got `float`",
        ),
        (Quotas, {"documents_max": True}, "Quotas.documents_max is not valid: Expected `int | None`, got `bool`"),
        (ServerLimits, {"threads": None}, "ServerLimits.threads is not valid: Expected `int`, got `None`"),
        (
            WorkerSettings,
            {"retry_seconds_max": math.nan},
            "WorkerSettings.retry_seconds_max is not valid: Expected a number, got nan",
        ),
        (
            WorkerSettings,
            {"retry_seconds_max": Fraction(10**400)},
            "WorkerSettings.retry_seconds_max is not valid: integer division result too large for a float",
        ),
        (RetentionPolicy, {"retain_segments": 0}, "RetentionPolicy.retain_segments is not valid: Expected `int` >= 1"),
        (
            MaintenancePolicy,
            {"documents": {"retain_days": 5}},
            "MaintenancePolicy.documents must be of type RetentionPolicy, not dict",
        ),
        (
            MaintenancePolicy,
            {"exceptions": {"acme": {"retain_days": 5}}},
            "MaintenancePolicy.exceptions['acme'] must be of type RetentionPolicy, not dict",
        ),
        (Application, {"limits": 5}, "Application.limits must be of type ServerLimits, not int"),
        (Application, {"quotas": {}}, "Application.quotas must be of type Quotas, not dict"),
        (Application, {"routes": 5}, "Application.routes is not valid: Expected `list`, got `int`"),
        (Application, {"hosts": "app.example"}, "Application.hosts is not valid: Expected `list`, got `str`"),
        (Application, {"pages": {"own": 5}}, "Application.pages['own'] must be of type str | Path, not int"),
    ],
)
def test_a_field_of_a_wrong_type_is_a_type_error(
    kind: type[msgspec.Struct], fields: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError) as failure:
        kind(**fields)
    assert str(failure.value) == message


def test_a_value_that_works_like_the_type_of_its_field_is_accepted() -> None:
    class Days(float):
        """Like numpy.float64."""

    @Integral.register
    class Count:
        """Like numpy.int64."""

        def __index__(self) -> int:
            return 5

    class OwnPolicy(RetentionPolicy, frozen=True):
        pass

    class Anything(CheckedStruct, frozen=True):
        value: Any = None

    assert Rules(metadata_fields=["id"]) == Rules(metadata_fields=("id",))  # type: ignore[arg-type]
    assert Application(hosts=["app.example"]).hosts == ("app.example",)  # type: ignore[arg-type]
    assert Application(routes=deque(["route"])).routes == ("route",)
    assert type(RetentionPolicy(retain_days=Days(3)).retain_days) is float
    assert RetentionPolicy(retain_days=Fraction(1, 2)).retain_days == 0.5  # type: ignore[arg-type]
    assert Quotas(documents_max=Count()).documents_max == 5  # type: ignore[arg-type]
    assert Anything("text") == Anything("text")
    assert RetentionPolicy(retain_days=2**60 + 1).retain_days == 2**60 + 1
    own = OwnPolicy(retain_days=3)
    assert MaintenancePolicy(documents=own, exceptions={"acme": own}).retention("acme", "plan", "log") is own
    assert Application(pages={"own": Path("pages"), "other": "pages"}).pages


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


def test_a_time_may_be_any_real_number(document: Document) -> None:
    document.put("a", 1)
    assert document.log.version_at(Fraction(2**62)) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["segment_entries_target", "snapshot_entries_interval", "follow_poll_seconds"])
def test_log_settings_that_no_log_can_have_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"LogSettings.{name} is not valid: Expected .* >=? (0|1)"):
        LogSettings(**{name: 0})


@pytest.mark.parametrize(
    "name",
    ["body_inline_bytes_max", "append_seconds_max", "append_backoff_seconds_first", "append_backoff_seconds_max"],
)
def test_negative_log_settings_are_refused(name: str) -> None:
    LogSettings(**{name: 0})
    with pytest.raises(TypeError, match=rf"LogSettings.{name} is not valid: Expected .* >= 0"):
        LogSettings(**{name: -1})
