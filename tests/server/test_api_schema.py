"""Requests generated from the OpenAPI document get no server error and no undeclared response."""

from __future__ import annotations

from contextlib import suppress

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS

from stratalog.errors import Conflict
from stratalog.log import Event
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.store import Store, open_store

EXAMPLES = 4
STRANGE_EXAMPLES = 1
NAMES = {"organisation": "acme", "document": "budget", "log": "sheet", "record": "report"}
PROMISES = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
# HOSTS has the host name that schemathesis sends. The tests omit the paths that end with ENDLESS, because an event
# stream never ends.
HOSTS = ("testserver",)
ENDLESS = "/events"

STORE = open_store("memory:")
APP = create_app(STORE, Application(hosts=HOSTS, limits=ServerLimits(rate_requests_burst=1_000_000)))
SCHEMA = schemathesis.openapi.from_asgi("/schema/openapi.json", APP).exclude(path_regex=f"{ENDLESS}$")


def ready(store: Store) -> None:
    """Create the objects that NAMES lists. An earlier request may have deleted them."""
    with suppress(Conflict):
        store.create("acme", "budget").mutate("put", {"key": "cells/C2", "value": 100})
    with suppress(Conflict):
        store.create_log("acme", "sheet").append(Event("set"))
    store.records("acme").put("report", b"body")


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_generated_requests_for_existing_resources_get_declared_responses(case: schemathesis.Case) -> None:
    ready(STORE)
    for name in case.path_parameters:
        if name in NAMES:
            case.path_parameters[name] = NAMES[name]
    case.call_and_validate(checks=[CHECKS.get_one(name) for name in PROMISES])


@SCHEMA.parametrize()
@settings(max_examples=STRANGE_EXAMPLES, suppress_health_check=list(HealthCheck))
def test_generated_requests_for_arbitrary_names_get_declared_responses(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[CHECKS.get_one(name) for name in PROMISES])
