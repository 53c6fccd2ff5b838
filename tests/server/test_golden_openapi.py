"""The OpenAPI document is fixed except for its prose, because clients depend on its paths, parameters and schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.server.application import Application
from stratalog_catalogue.http import application as catalogue
from stratalog_sheet.http import application as sheet
from tests.server.api import serving

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/openapi-v1.json").read_text())
APPLICATIONS = {"catalogue": catalogue, "sheet": sheet}
PROSE = {"description", "summary", "info", "tags"}


def test_the_server_has_the_golden_paths_and_shapes() -> None:
    assert parts_of(Application()) == GOLDEN["server"]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_adds_the_golden_paths_and_shapes(name: str) -> None:
    parts = parts_of(APPLICATIONS[name]())
    assert parts.items() >= GOLDEN["server"].items()
    assert {part: parts[part] for part in parts.keys() - GOLDEN["server"].keys()} == GOLDEN[name]


def parts_of(application: Application) -> dict[str, Any]:
    """Return the parts of an application's OpenAPI document: its paths, its components and its other fields.

    The key of a part is the position of the part in the document, such as ``#/paths/health``.
    """
    with serving(application) as client:
        document = without_prose(client.get("/schema/openapi.json").json())
    components = document.pop("components")
    parts = {f"#/components/{kind}/{name}": part for kind in components for name, part in components[kind].items()}
    parts |= {f"#/paths{path}": part for path, part in document.pop("paths").items()}
    return parts | {f"#/{name}": part for name, part in document.items()}


def without_prose(value: Any) -> Any:
    """Return ``value`` without the texts that only people read."""
    if isinstance(value, dict):
        return {name: without_prose(item) for name, item in value.items() if not _is_prose(name, item)}
    return [without_prose(item) for item in value] if isinstance(value, list) else value


def _is_prose(name: str, item: Any) -> bool:
    # An item with a type is a property of a schema, not prose.
    return name in PROSE and not (isinstance(item, dict) and "type" in item)
