"""Run the Python and shell snippets of every page with `tests/snippets.py`. A page may mark a snippet as skipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.processes import environment, run
from tests.snippets import ROOT, Snippet, SnippetFailure, is_plain, run_page, snippets_of

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("apps/*/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("formats/*.md")),
]
ON_EMULATORS = ("<!-- snippet: aws -->", "<!-- snippet: postgres -->")
WITH_SNIPPETS = [
    pytest.param(page, marks=pytest.mark.slow if any(mark in page.read_text() for mark in ON_EMULATORS) else ())
    for page in PAGES
    if any(snippets_of(page.read_text()))
]
SKIPPED_MAX = 3
PAGE_SECONDS_MAX = 600


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    own = {name: value for name, value in environment().items() if not name.startswith(("STRATALOG_", "AWS_"))}
    command = [sys.executable, "-m", "tests.snippets", str(page.relative_to(ROOT))]
    run(command, cwd=folder, env=own, seconds=PAGE_SECONDS_MAX)


def test_snippets_are_parsed_with_their_lines_and_options() -> None:
    page = """# Title
```python
a = 1
```
<!-- snippet: skip, it needs an account -->
```sh
stratalog list
```
<!-- snippet: exit 1 -->

```console
$ stratalog verify
all is well
```
<!-- snippet: file here.json -->
```sh
{}
```
<!-- snippet: sh
stratalog init
-->
```json
{}
```
"""
    assert list(snippets_of(page)) == [
        Snippet(2, "python", "a = 1\n"),
        Snippet(6, "sh", "stratalog list\n", skipped="it needs an account"),
        Snippet(11, "sh", "stratalog verify\n", exit_code=1),
        Snippet(16, "sh", "{}\n", file="here.json"),
        Snippet(19, "sh", "stratalog init\n", hidden=True),
    ]


def test_few_snippets_are_skipped() -> None:
    skipped = [snippet.skipped for page in PAGES for snippet in snippets_of(page.read_text()) if snippet.skipped]
    assert len(skipped) <= SKIPPED_MAX, skipped


@pytest.mark.parametrize(
    "page",
    [
        "<!-- snippet: skip -->\n```sh\n```\n",
        "<!-- snippet: slip, why -->\n```sh\n```\n",
        "<!-- snippet: exit 1 -->\n",
        "<!-- snippet: exit 1 -->\n```json\n```\n",
    ],
)
def test_a_snippet_comment_that_is_misspelt_or_has_no_snippet_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="comment"):
        list(snippets_of(page))


@pytest.mark.parametrize(
    ("page", "position"),
    [
        ("text\n```python\nx = 1\ny = z\n```\n", "page.md:2"),
        ("```sh\nstratalog init\nstratalog show acme/gone\n```\n", "page.md:3: exit code 3"),
        ("```sh\ntest -e gone && exit 0\n```\n", "page.md:2: exit code"),
        ("```sh\nstratalog serve\ncurl localhost:8420/v1/gone\n```\n", "page.md:3: exit code 22"),
        ("<!-- snippet: with here=echo there -->\n```sh\ntrue\n```\n", "page.md:2: the snippet does not contain here"),
    ],
)
def test_a_failing_snippet_is_reported_with_its_line(page: str, position: str, fresh_folder: Path) -> None:
    with pytest.raises(SnippetFailure, match=position):
        run_page("page.md", page)


def test_blocks_of_a_page_share_names_folder_and_environment(fresh_folder: Path) -> None:
    page = """```python
names = ["ada"]
```
```sh
mkdir made && cd made
export STRATALOG_STORE=./store
stratalog init > said
```
```python
# greeting.py
names.append("bob")
```
```python
import os
assert names == ["ada", "bob"]
assert sorted(os.listdir(".")) == ["greeting.py", "said", "store"]
```
"""
    run_page("page.md", page)


def test_a_block_can_become_a_file_and_a_command_can_fill_in_a_placeholder(
    fresh_folder: Path,
) -> None:
    page = """<!-- snippet: file policy.json -->
```json
{}
```
<!-- snippet: with /mnt/backups=echo there -->
<!-- snippet: with 12=echo 3 -->
```sh
cp policy.json /mnt/backups && cp policy.json 12
```
"""
    run_page("page.md", page)
    assert sorted(path.name for path in fresh_folder.iterdir()) == ["3", "policy.json", "there"]


def test_snippets_marked_apart_run_in_copies_of_the_same_folder(fresh_folder: Path) -> None:
    page = """<!-- snippet: apart
touch here
-->
```sh
mv here there
```
<!-- snippet: sh
touch before
-->
```sh
ls here before
```
"""
    run_page("page.md", page)
    assert list(fresh_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("stratalog list  # all", True),
        ("stratalog list > x", False),
        ("a && b", False),
        ("a $(b)", False),
        ("a b\\|c", True),
    ],
)
def test_a_command_with_shell_syntax_is_not_plain(command: str, plain: bool) -> None:
    assert is_plain(command) == plain


@pytest.fixture
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder. After the test, the fixture undoes a page's changes to this process."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("STRATALOG_STORE", "./data")
    return folder
