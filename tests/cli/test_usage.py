"""`stratalog usage` shows how much an organisation stores. The settings can define quotas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.aws.container import Container
from stratalog.aws.maintenance import maintained
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.server import Application, Quotas
from stratalog.settings import parse_settings
from stratalog.store import open_store
from tests.cli.conftest import Run

QUOTAS = '{"quotas": {"documents_max": 3}}'


def test_usage_is_measured_on_request_and_shown_afterwards(budget: Run) -> None:
    assert "never" in budget("usage", "acme").stdout
    assert json.loads(budget("usage", "acme", "--json").stdout) == {"organisation": "acme", "measured_ms": None}
    budget("records", "put", "acme/report", "-", typed="body")
    measured = json.loads(budget("usage", "acme", "--measure", "--json").stdout)
    assert (measured["documents"], measured["records"], measured["clients"]) == (1, 1, 3)
    assert (measured["document_clients"], measured["unreadable_documents"]) == (3, 0)
    assert measured["stored_bytes"] > 0
    budget("create", "acme/other")
    assert json.loads(budget("usage", "acme", "--json").stdout) == measured
    assert "acme" in budget("usage").stdout


def test_a_store_without_organisations_has_no_usage(run: Run) -> None:
    run("init")
    assert "no organisation" in run("usage").stderr


@pytest.mark.parametrize(("quotas", "count"), [("{}", 0), (QUOTAS, 1)])
def test_maintenance_measures_usage_only_if_quotas_are_set(budget: Run, quotas: str, count: int) -> None:
    ran = budget("maintain", "--settings", quotas, "--json")
    assert json.loads(ran.stdout)["measured_organisations"] == count


def test_quotas_of_the_settings_override_quotas_of_the_application() -> None:
    own = Quotas(documents_max=9, records_max=8)
    assert parse_settings(QUOTAS).over("quotas", own) == Quotas(documents_max=3, records_max=8)
    assert not Application().has_quotas
    assert Application(organisation_quotas=lambda name: None).has_quotas


def test_functions_on_aws_apply_the_quotas_of_the_settings_and_measure_usage(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with open_store(store) as opened:
        opened.create("acme", "plan")
    container = Container({"STRATALOG_STORE": store, "STRATALOG_SETTINGS": QUOTAS})
    assert container.application.quotas_of("acme") == Quotas(documents_max=3)
    assert maintained(container, MaintenancePolicy(), 60).measured_organisations == 1
    container.store.close()
