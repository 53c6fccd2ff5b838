"""The groups of the sidebar, and the order of the pages in them.

A page that this module does not name is at the end of its folder's group, or else of the last group. So this module
needs no line for a new page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["GROUPS", "contents", "grouped"]

TUTORIAL = ["guides/first-steps", "guides/own-mutator", "guides/collaborative-app"]
GUIDES = [
    "guides/server",
    "guides/client",
    "guides/browser-client",
    "guides/queue",
    "guides/maintenance",
    "guides/backup",
    "guides/verify",
    "guides/operate",
    "guides/alarms",
    "guides/postgresql",
    "guides/aws",
    "guides/deploy",
    "guides/sheet",
    "guides/table",
    "guides/catalogue",
]
CONCEPTS = [
    "concepts/overview",
    "concepts/log",
    "concepts/documents",
    "concepts/records",
    "concepts/tree",
    "concepts/sync",
    "concepts/proof",
    "concepts/collecting",
    "concepts/sheet",
    "concepts/cost",
    "seed-example",
    "design",
]
REFERENCE = [
    "reference/python/index",
    "reference/http/index",
    "reference/commands/index",
    "guides/command-line",
    "guides/settings",
    "promises",
    "limits",
    "formats/index",
    "GLOSSARY",
]
PROJECT = [
    "comparisons",
    "benchmarks",
    "benchmarks-growth",
    "benchmarks-peers",
    "CONTRIBUTING",
    "SECURITY",
    "CHANGELOG",
    "decisions/index",
]
APPENDIX = [
    "guarantees",
    "coverage",
    "runs",
    "mutation",
    "corpus",
    "concepts/simulation",
    "concepts/sheet-engine-reports",
]

# For each group: its caption, its pages in order, and the folder whose other pages follow.
GROUPS: list[tuple[str, list[str], str]] = [
    ("Tutorial", TUTORIAL, ""),
    ("How-to guides", GUIDES, "guides/"),
    ("Concepts", CONCEPTS, "concepts/"),
    ("Reference", REFERENCE, ""),
    ("Project", PROJECT, "apps/"),
    ("Appendix", ["contents", *APPENDIX], ""),
]
# Folders with an index page that lists their pages.
BELOW_AN_INDEX = ("decisions/", "formats/", "reference/")


def grouped(pages: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return each caption with its pages. Pages without a group are at the end of the last group."""
    named = {name for _, names, _ in GROUPS for name in names} | {"index"}
    groups = []
    for caption, names, folder in GROUPS:
        others = sorted(page for page in pages if folder and page.startswith(folder) and page not in named)
        named |= set(others)
        groups.append((caption, [*names, *others]))
    groups[-1][1].extend(sorted(page for page in pages if page not in named and not page.startswith(BELOW_AN_INDEX)))
    return groups


def contents(pages: Iterable[str], caption: str = "", *, hidden: bool = False) -> str:
    """Return a list of pages for Sphinx, with paths from the source folder's root."""
    options = [":maxdepth: 1", *([f":caption: {caption}"] if caption else []), *([":hidden:"] if hidden else [])]
    return "\n".join(["```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""])
