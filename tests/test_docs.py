"""Every link of the documentation leads to a file or heading, and links from the index reach every page in docs.

Each test, world, planted bug, checker and file that a page names exists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.simulation.simulate import MUTANTS, WORLDS
from tests.sources import LABORATORY, LIBRARY, PACKAGES, PROGRAMS, ROOT, TESTS, files

HERE = Path(__file__)
FOLDERS = (ROOT, *PACKAGES, *(package.parent for package in PACKAGES))
PAGES = sorted(page for below in ("", "apps/*/", "docs/**/", "formats/**/") for page in ROOT.glob(f"{below}*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"((?:tests|src|apps)/[\w/]+\.py)::(\w+)")
PROOFS = re.compile(r"(?<!\w)(world|mutant|checker)s?((?:(?:,| and)?\s`[^`]+`)+)")
CITATION = re.compile(r"docs/design\.md#([\w-]+)|(DESIGN §)")
FILE = re.compile(r"`([\w.]+/[\w./]+\.(?:py|md|json|txt))`")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
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


@each_page
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert [f"{path}::{name}" for path, name in TEST.findall(prose(page)) if not is_defined(ROOT / path, name)] == []


@each_page
def test_every_proof_that_a_page_names_exists(page: Path) -> None:
    assert [proof for proof in proofs_named(prose(page)) if proof not in proofs()] == []


@each_page
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in FILE.findall(prose(page)) if not any((folder / path).exists() for folder in FOLDERS)] == []


def test_the_rates_in_the_readme_and_their_ratios_are_on_the_benchmarks_page() -> None:
    section = (ROOT / "README.md").read_text().split("## How fast it is")[1].split("\n## ")[0]
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    rows = re.findall(r"\| ([\d,]+) a second \| ([\d.]*)", section)
    assert rows
    for rate, ratio in rows:
        [listed] = re.findall(rf"\| {rate} \w+/s \| [\d,]+ \| ([\d.]+) \|", measured)
        rounding = 0.5 * 10.0 ** -len(ratio.partition(".")[2])
        assert not ratio or abs(float(listed) - float(ratio)) <= rounding + 1e-9, rate


def test_a_test_that_is_not_defined_is_reported() -> None:
    assert is_defined(Path(__file__), "test_a_test_that_is_not_defined_is_reported")
    assert not is_defined(Path(__file__), "test_a_test_that_is_not")
    assert not is_defined(ROOT / "tests" / "no_such_file.py", "test_a_test_that_is_not_defined_is_reported")


def test_every_comparison_has_a_date_a_source_and_advice_for_both_products() -> None:
    page = (ROOT / "docs" / "comparisons.md").read_text()
    opening, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    assert re.search(r"\d+ [A-Z][a-z]+ 20\d\d", " ".join(opening.split()))
    for name, _, text in (section.partition("\n") for section in sections[:-1]):
        assert f"[{name}](#{name.lower().replace(' ', '-')})" in opening, name
        assert "](https://" in text, name
        assert f"**Choose {name}**" in text, name
        assert "**Choose Stratalog**" in text, name


def test_every_heading_of_the_design_that_code_cites_exists() -> None:
    code = {file: CITATION.findall(file.read_text()) for file in files(*PACKAGES, *PROGRAMS, *TESTS) if file != HERE}
    headings = anchors(ROOT / "docs" / "design.md")
    cited = [(str(file.relative_to(ROOT)), heading) for file, citations in code.items() for heading, _ in citations]
    assert [citation for citation in cited if citation[1] not in headings] == []
    assert len(cited) >= 4


def test_every_name_in_a_list_of_proofs_is_parsed() -> None:
    assert proofs_named("worlds `a` and `b`, mutants `c`, `d`; `e`, checker `f`") == [
        ("world", "a"),
        ("world", "b"),
        ("mutant", "c"),
        ("mutant", "d"),
        ("checker", "f"),
    ]


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n[gone](nowhere.md) [lost](#no-such-heading) [fine](#title)\n")
    assert [link for link in relative_links(page) if not leads_somewhere(page, link)] == [
        "nowhere.md",
        "#no-such-heading",
    ]


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether the linked file exists, and has the heading that the link names, if any."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def is_defined(path: Path, name: str) -> bool:
    """Return whether the file defines a function or a test case of that name."""
    return path.is_file() and bool(re.search(rf"^\s*(def {name}\(|{name} = )", path.read_text(), re.MULTILINE))


def proofs_named(text: str) -> list[tuple[str, str]]:
    """Return the kind and name of each world, planted bug and checker that a text names, alone or in a list."""
    return [(kind, name) for kind, names in PROOFS.findall(text) for name in re.findall(r"`([^`]+)`", names)]


def proofs() -> set[tuple[str, str]]:
    """Return every world, planted bug and checker of the simulation."""
    checkers = {checker for mutant in MUTANTS for checker in mutant.caught_by}
    for file in files(LIBRARY / "testing", LABORATORY):
        checkers.update(re.findall(r'Violation\(\s*"([^"]+)"', file.read_text()))
    worlds = {("world", name) for name in WORLDS}
    return worlds | {("mutant", mutant.name) for mutant in MUTANTS} | {("checker", name) for name in checkers}


def relative_links(page: Path) -> list[str]:
    """Return the links of a page that stay inside the repository."""
    return [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def prose(page: Path) -> str:
    """Return a page without its code blocks and comments."""
    return re.sub(r"^```.*?^```|^<!--.*?-->", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
