"""The documentation site builds without a warning, every link has a target, and no page requests another host.

The build generates the reference from the code. So the reference has every public name, every call and every command.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from sphinx.util.inspect import stringify_signature

from scripts.website import __main__ as website
from scripts.website.__main__ import render
from scripts.website.command_reference import command_pages, entire_program
from scripts.website.docstrings import as_markup, with_named_defaults, without_modules
from scripts.website.http_reference import http_pages, openapi_document
from scripts.website.links import faults
from scripts.website.navigation import GROUPS, grouped
from scripts.website.pages import repository_pages, rewritten
from scripts.website.python_reference import PAGES, names_of, python_pages, with_submodules
from stratalog import MaintenancePolicy, Rules
from stratalog.server import Application
from tests.e2e.serving import find_chromium
from tests.processes import ROOT, run

BUILD_SECONDS_MAX = 600


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder of a new build, and what the build wrote to its error stream."""
    site = tmp_path_factory.mktemp("website") / "site"
    done = run([sys.executable, "-m", "scripts.website", str(site)], cwd=ROOT, seconds=BUILD_SECONDS_MAX)
    return site, done.stderr


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_asks_no_other_host(built: tuple[Path, str]) -> None:
    site, errors = built
    assert errors == ""
    assert "Search.setIndex" in (site / "searchindex.js").read_text()[:100]


@pytest.mark.slow
def test_an_option_of_a_command_begins_with_two_hyphens_on_every_page(built: tuple[Path, str]) -> None:
    site, _ = built
    assert "needs --state" in (site / "guides" / "command-line.html").read_text()
    assert [path.name for path in sorted(site.rglob("*.html")) if re.search(r"[–—][a-z]", path.read_text())] == []


MEASURE = """
<script>
  addEventListener("load", () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const cut = [...document.querySelectorAll("article td")].filter((cell) => {
      const isIndex = cell.closest("table.genindextable");
      return isIndex && cell.getBoundingClientRect().right > clientWidth;
    });
    document.body.textContent = `beyond=${scrollWidth - clientWidth + cut.length}.`;
  });
</script>
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.html", "genindex.html"])
def test_a_page_is_not_wider_than_its_window(built: tuple[Path, str], name: str) -> None:
    page = built[0] / f"measured-{name}"
    page.write_text((built[0] / name).read_text() + MEASURE)
    widths = [390, 800, 1290, 1330, 1400, 1440, 1555, 1700]
    assert {width: beyond(page, width) for width in widths} == dict.fromkeys(widths, "0")


def beyond(page: Path, width: int) -> str:
    """Return the pixels by which a page is wider than a window of this width, plus the number of cells that are cut."""
    options = [
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]
    shown = run([find_chromium(), *options, page.as_uri()], cwd=page.parent).stdout
    return shown.rpartition("beyond=")[2].partition(".")[0]


@pytest.fixture
def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a build generate no page, and let Sphinx write nothing."""
    for name in ("python_pages", "http_pages", "command_pages"):
        monkeypatch.setattr(website, name, dict)
    monkeypatch.setattr(website, "write_pages", lambda *_: None)
    monkeypatch.setattr(website, "render", lambda *_: 0)


@pytest.mark.usefixtures("without_pages")
def test_a_broken_link_in_the_html_fails_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(source: Path, site: Path, cache: Path) -> int:
        (site / "page.html").write_text('<a href="gone.html">')
        return 0

    monkeypatch.setattr(website, "render", render)
    assert website.main([str(tmp_path / "site")]) == 1
    assert "page.html: gone.html leads nowhere" in capsys.readouterr().err


@pytest.mark.usefixtures("without_pages")
@pytest.mark.parametrize("name", ["site", "site-source", "site-cache"])
def test_a_folder_that_the_script_did_not_make_is_not_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    site, own = tmp_path / "site", tmp_path / name / "page.md"
    site.mkdir()
    assert [website.main([str(site)]) for _ in range(2)] == [0, 0], "an empty folder, and the script's own folder"
    shutil.rmtree(own.parent)
    own.parent.mkdir()
    own.write_text("# Mine\n")
    assert website.main([str(site)]) == 2
    assert own.read_text() == "# Mine\n"
    assert f"{own.parent} exists, and" in capsys.readouterr().err


def test_a_broken_link_in_a_source_page_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Title\n\n[gone](nowhere.md)\n")
    assert render(source, tmp_path / "site", tmp_path / "cache") != 0


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="gone.html">', "gone.html leads nowhere"),
        ('<a href="#gone">', "#gone leads nowhere"),
        ('<a href="page.html#gone">', "page.html#gone leads nowhere"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="https://cdn.example/x.js">', "https://cdn.example/x.js is fetched from another host"),
        ('<img src="//cdn.example/x.png">', "//cdn.example/x.png is fetched from another host"),
        (
            '<link rel="stylesheet" href="http://cdn.example/x.css">',
            "http://cdn.example/x.css is fetched from another host",
        ),
    ],
)
def test_broken_links_and_resources_of_other_hosts_are_reported(tmp_path: Path, html: str, fault: str) -> None:
    (tmp_path / "page.html").write_text(html)
    assert faults(tmp_path) == [f"page.html: {fault}"]


@pytest.mark.parametrize(
    "html", ['<a id="here" href="#here">', '<a href="https://example.org">', '<a href="mailto:a@b">']
)
def test_a_valid_link_is_not_reported(tmp_path: Path, html: str) -> None:
    (tmp_path / "page.html").write_text(html)
    assert faults(tmp_path) == []


def test_a_style_sheet_that_requests_another_host_is_reported(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("@import url(https://fonts.example/x.css)")
    assert faults(tmp_path) == ["page.css: loads from another host"]


def test_links_of_the_repository_lead_within_the_site() -> None:
    page = (
        "[home](../../README.md) [log](../../formats/log.md#keys) [formats](../../formats) [out](https://example.org)"
    )
    text, files = rewritten("docs/guides/server.md", page)
    assert (
        text
        == "[home](../index.md) [log](../formats/log.md#keys) [formats](../formats/index.md) [out](https://example.org)"
    )
    assert files == set()


def test_a_linked_file_is_included_in_the_site() -> None:
    assert rewritten("docs/limits.md", "[code](../src/stratalog/limits.py)")[1] == {"src/stratalog/limits.py"}


def test_a_link_in_a_code_block_is_not_rewritten() -> None:
    page = "```python\nx = [a](b.md)\n```\n"
    assert rewritten("docs/limits.md", page) == (page, set())


def test_a_link_to_a_path_that_the_site_cannot_show_is_refused() -> None:
    with pytest.raises(ValueError, match="no file that the site can show"):
        rewritten("docs/limits.md", "[code](../src)")


def test_every_page_is_in_a_single_group() -> None:
    pages = {target.removesuffix(".md") for target in repository_pages().values()}
    shown = [page for _, group in grouped(pages) for page in group]
    assert len(shown) == len(set(shown))
    elsewhere = {page for page in pages - set(shown) if not page.startswith(("decisions/", "formats/"))}
    assert elsewhere == {"index"}


def test_every_page_that_the_navigation_names_exists() -> None:
    pages = {target.removesuffix(".md") for target in repository_pages().values()}
    made = {"decisions/index", "formats/index"}
    named = {page for _, group, _ in GROUPS for page in group if not page.startswith("reference/")}
    assert named - pages - made == set()


def test_every_public_name_is_in_the_python_reference() -> None:
    modules = {name: module for public in PAGES for name, module in with_submodules(public)}
    values = {id(getattr(module, name)) for module in modules.values() for name in names_of(module)}
    text = "\n".join(python_pages().values())
    shown = {
        id(getattr(module, each))
        for name, module in modules.items()
        for each in names_of(module)
        if f":: {name}.{each}\n" in text
    }
    assert values - shown == set()


def test_a_signature_in_the_python_reference_names_the_default_mutators() -> None:
    for struct in (Application, Rules):
        signature = stringify_signature(inspect.signature(struct))
        assert "mappingproxy" in signature
        assert " = BUILT_IN_MUTATORS" in with_named_defaults(struct, signature)
        assert "mappingproxy" not in with_named_defaults(struct, signature)


def test_a_signature_in_the_python_reference_has_only_defaults_that_sphinx_can_parse() -> None:
    for struct in (Application, MaintenancePolicy):
        shown = with_named_defaults(struct, stringify_signature(inspect.signature(struct)))
        assert "<factory>" not in shown
        assert "RetentionPolicy(retain_segments" not in shown
        assert "ServerLimits(threads" not in shown


@pytest.mark.parametrize("name", ["stratalog", "stratalog.client", "stratalog.server", "stratalog_table"])
def test_every_public_value_has_a_description_in_the_python_reference(name: str) -> None:
    module = import_module(name)
    values = [each for each in names_of(module) if not callable(getattr(module, each))]
    page = python_pages()[f"reference/python/{name}.rst"]
    undescribed = [each for each in values if not re.search(rf"data:: {name}\.{each}\n(   :no-value:\n)?\n   \S", page)]
    assert undescribed == []


def test_the_parameter_types_of_handlers_are_shown_without_their_annotations() -> None:
    assert "autodata:: stratalog.server.Count" not in python_pages()["reference/python/stratalog.server.rst"]


def test_the_python_reference_describes_the_methods_that_a_client_inherits_and_the_results_of_reads() -> None:
    pages = python_pages()
    assert ".client.replica.Replica\n" in pages["reference/python/stratalog.client.rst"]
    results = ["KeyChange", "Difference", "Version", "Applied", "Listing", "ItemInfo", "Verified", "MaintenanceFailure"]
    assert [name for name in results if f".{name}\n" not in pages["reference/python/stratalog.rst"]] == []


def test_the_python_reference_describes_the_applications_that_programs_import() -> None:
    pages = python_pages()
    for name in ("Held", "JobTracker"):
        assert f":: stratalog_table.{name}\n" in pages["reference/python/stratalog_table.rst"]
    assert ":: stratalog_table.rows.scan\n" in pages["reference/python/stratalog_table.rows.rst"]
    assert ":: stratalog_sheet.CellChange\n" in pages["reference/python/stratalog_sheet.rst"]


@pytest.mark.slow
def test_a_built_in_type_in_a_signature_has_no_link(built: tuple[Path, str]) -> None:
    site, _ = built
    page = (site / "reference" / "python" / "stratalog.server.html").read_text()
    assert '<span class="n"><span class="pre">type</span></span>' in page
    assert "#stratalog.Event.type" not in page


def test_every_call_is_in_the_http_reference() -> None:
    text = "\n".join(http_pages().values())
    document = openapi_document()
    for path, calls in document["paths"].items():
        for call in calls.values():
            assert f"({call['operationId'].lower()})=" in text, path
    assert [name for name in document["components"]["schemas"] if f"\n## {name}\n" not in text] == []


def test_every_command_is_in_the_reference() -> None:
    pages = command_pages()
    for path in command_paths(entire_program()):
        assert f"\nstratalog {' '.join(path)} " in pages[f"reference/commands/{path[0]}.md"]


def command_paths(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, and of the commands within it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, *path) for path in command_paths(command))


def test_the_list_of_a_packages_modules_is_a_list_of_definitions() -> None:
    lines = ["Summary.", "", "Modules", "-------", "one  the first", "two  the second"]
    assert as_markup(lines)[2:] == [".. rubric:: Modules", "", "``one``", "   the first", "``two``", "   the second"]
    assert without_modules(lines) == ["Summary.", ""]
