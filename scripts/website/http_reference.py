"""Pages of the HTTP API, made from its OpenAPI document: a page for each tag, and a page of the schemas of bodies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from scripts.website.markup import code, prose, table
from scripts.website.navigation import contents
from stratalog.server import Application, create_app
from stratalog.store import open_store

__all__ = ["http_pages"]

Json = Mapping[str, Any]
FOLDER = "reference/http"
REFERENCE = "#/components/schemas/"
BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}
INDEX = """# HTTP API

{description}

The server sends its OpenAPI document from `/schema/openapi.json`. The build makes these pages from the document of a
server without an application. An application adds its routes. [The server](../../guides/server.md) explains tokens,
limits and pages.

"""
ERRORS = """
## Errors

Every call may return one of these errors, each with a [Problem](shapes.md#problem) as its body.

"""


def http_pages() -> dict[str, str]:
    """Return the pages by their path in the source folder."""
    document = openapi_document()
    common = common_answers(document)
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            by_tag[call["tags"][0]].append(call_text(method.upper(), path, call, common))
    pages = {f"{FOLDER}/{tag}.md": f"# {tag.capitalize()}\n\n" + "\n".join(calls) for tag, calls in by_tag.items()}
    pages[f"{FOLDER}/shapes.md"] = shapes_page(document["components"]["schemas"])
    pages[f"{FOLDER}/index.md"] = index_page(document, common, [*by_tag, "shapes"])
    return pages


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of a server without an application."""
    with open_store("memory:") as store:
        return create_app(store, Application()).openapi_schema.to_schema()


def common_answers(document: Json) -> dict[str, str]:
    """Return the errors that every call may return: status and meaning."""
    calls = [call for calls in document["paths"].values() for call in calls.values()]
    common = set.intersection(*({status for status in call["responses"] if status >= "400"} for call in calls))
    return {status: calls[0]["responses"][status]["description"] for status in sorted(common)}


def index_page(document: Json, common: Mapping[str, str], tags: list[str]) -> str:
    errors = table(["status", "meaning"], ([code(status), prose(meaning)] for status, meaning in common.items()))
    calls = [
        [code(method.upper()), code(path), f"[{prose(call['summary'])}]({call['tags'][0]}.md#{anchor(call)})"]
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    return "\n".join(
        [
            INDEX.format(description=prose(document["info"]["description"])),
            contents([f"{FOLDER}/{tag}" for tag in tags]),
            "## All calls\n",
            table(["method", "path", "what it does"], calls),
            ERRORS,
            errors,
        ]
    )


def anchor(call: Json) -> str:
    """Return the anchor of a call: the id of the operation, since two calls may have the same summary."""
    return str(call["operationId"]).lower()


def call_text(method: str, path: str, call: Json, common: Mapping[str, str]) -> str:
    """Return the text of a call: its purpose, parameters, body and answers."""
    badge = f'<p class="call"><span class="{method.lower()}">{method}</span> <code>{escape(path)}</code></p>\n'
    parts = [f"({anchor(call)})=\n## {prose(call['summary'])}\n", badge]
    if description := call.get("description"):
        parts.append(prose(description) + "\n")
    if parameters := call.get("parameters"):
        rows = ([code(item["name"]), item["in"], kind(item["schema"]), needed(item)] for item in parameters)
        parts.append(table(["parameter", "in", "type", ""], rows))
    if body := call.get("requestBody"):
        parts.append("**Body**: " + content_text(body) + ".\n")
    answers = {status: answer for status, answer in call["responses"].items() if status not in common}
    rows = ([code(status), content_text(answer), answer_text(answer)] for status, answer in sorted(answers.items()))
    parts.append(table(["answer", "body", "meaning"], rows))
    return "\n".join(parts)


def answer_text(answer: Json) -> str:
    text = str(answer.get("description", ""))
    return "" if text.startswith("Request fulfilled") else prose(text)


def needed(parameter: Json) -> str:
    """Return whether a parameter is required, with its description, default and bounds."""
    remarks = ["required"] if parameter.get("required") else []
    if description := parameter.get("description"):
        remarks.append(prose(description))
    return "; ".join([*remarks, *remarks_of(parameter["schema"])])


def remarks_of(schema: Json) -> list[str]:
    """Return a schema's description, default and bounds."""
    remarks = [prose(schema["description"])] if schema.get("description") else []
    if schema.get("default") not in (None, ""):
        remarks.append(f"default {code(str(schema['default']))}")
    return remarks + [f"{words} {bound(schema[name])}" for name, words in BOUNDS.items() if name in schema]


def bound(number: float) -> str:
    return f"{int(number):,}"


def content_text(part: Json) -> str:
    """Return the schemas of a body or an answer, each with its content type unless the type is JSON."""
    content = part.get("content") or {}
    return ", ".join(
        kind(media.get("schema") or {}) + ("" if name == "application/json" else f" ({code(name)})")
        for name, media in content.items()
    )


def kind(schema: Json) -> str:
    """Describe a schema in a few words, with a link if the schema has a name."""
    if reference := schema.get("$ref"):
        name = str(reference).removeprefix(REFERENCE)
        return f"[{name}](shapes.md#{name.lower()})"
    for joined in ("oneOf", "anyOf"):
        if joined in schema:
            return " or ".join(kind(item) for item in schema[joined])
    if "enum" in schema or "const" in schema:
        return " or ".join(code(str(value)) for value in schema.get("enum", [schema.get("const")]))
    return _plain_kind(schema)


def _plain_kind(schema: Json) -> str:
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return "[" + ", ".join(kind(item) for item in schema["prefixItems"]) + "]"
        case "array":
            return f"array of {kind(schema.get('items', {}))}"
        case "object" if isinstance(values := schema.get("additionalProperties"), Mapping):
            return f"object of {kind(values)}"
        case str(name):
            form = schema.get("format") or schema.get("contentEncoding")
            return f"{name} ({form})" if form else name
        case list(names):
            return " or ".join(str(name) for name in names)
    return "any"


def shapes_page(schemas: Mapping[str, Json]) -> str:
    """Return the page of all named schemas with their fields, sorted by name."""
    shapes = (f"## {name}\n\n{shape_text(schema)}" for name, schema in sorted(schemas.items()))
    return "# Shapes\n\nThe JSON objects of bodies and answers.\n\n" + "\n".join(shapes)


def shape_text(schema: Json) -> str:
    parts = [prose(schema["description"]) + "\n"] if schema.get("description") else []
    parts.append(table(["field", "type", ""], _fields(schema)) or f"{kind(schema)}\n")
    return "\n".join(parts)


def _fields(schema: Json) -> Iterator[list[str]]:
    required = schema.get("required", [])
    for name, field in (schema.get("properties") or {}).items():
        remarks = ["required"] if name in required else []
        yield [code(name), kind(field), "; ".join(remarks + remarks_of(field))]
