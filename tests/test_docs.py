"""The documentation leads somewhere: every link has a file behind it, every anchor a heading, every page a way in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("formats/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [link for link in relative_links(page) if not leads_somewhere(page, link)] == []


@each_page
def test_a_page_has_one_title(page: Path) -> None:
    titles = [line for line in prose(page).splitlines() if line.startswith("# ")]
    assert len(titles) == 1


def test_every_page_under_docs_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        targets = {(page.parent / link.split("#")[0]).resolve() for link in relative_links(page) if link.split("#")[0]}
        new = {target for target in targets if target.suffix == ".md" and target.is_file()} - reached
        reached |= new
        waiting += new
    assert {page for page in PAGES if "docs" in page.relative_to(ROOT).parts} <= reached


def test_a_broken_link_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n[gone](nowhere.md) [lost](#no-such-heading) [fine](#title)\n")
    assert [link for link in relative_links(page) if not leads_somewhere(page, link)] == [
        "nowhere.md",
        "#no-such-heading",
    ]


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether the file, and the heading in it where one is named, are there."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def relative_links(page: Path) -> list[str]:
    """The links of a page that stay inside the repository."""
    return [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
