"""Checks of the code's style: sizes, docstrings, names, retired words, and the source of time and chance."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import LABORATORY, LIBRARY, PACKAGES, PROGRAMS, ROOT, TESTS, files, package_of, short_name

FILES = [path for path in files(*PACKAGES, LABORATORY) if not path.name.startswith("test_")]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
FOLDER_DEPTH_MAX = 2

# The files that may be longer than FILE_LINES_MAX, each with the reason.
LONG_FILES: dict[str, str] = {}

# Only clock.py reads the machine's time and randomness. Other code gets a Clock, so that a simulation controls both.
# `random.Random` with a seed is the simulation's own source of randomness.
CLOCK_FILE = LIBRARY / "clock.py"
BANNED_NAMES = re.compile(
    r"""^(
        time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|sleep|clock_gettime|clock_gettime_ns)
        | datetime\.(datetime\.|date\.)?(now|utcnow|today)
        | random\..* | secrets\..* | uuid\.uuid[1-8] | os\.(urandom|getrandom)
    )$""",
    re.VERBOSE,
)
SEEDED_CHANCE = "random.Random"
# Module names that are nouns although they end like participles.
NOUNS = {"coalescing", "feed", "naming", "routing"}

# The project uses other terms for these words: group commit, retry, background, tombstone, contention, and so on.
RETIRED = {"lane", "patience", "beside", "grave", "graves", "crowd", "crowded", "tend", "tended", "tending", "trouble"}
RETIRED |= {"troubles", "foreseen", "mend", "mendable", "mended"}
# English words that prose may use but that are too vague as names.
RETIRED_NAMES = {"place", "found", "said", "whole", "most", "least", "stands", "keep", "kept", "slot", "told"}
# In Python the word slot is a term of trees. "One", "notes" and a few other words are also too vague as names.
RETIRED_IN_PYTHON = RETIRED_NAMES - {"slot"} | {"places", "keeps", "notes", "one", "beat", "upkeep"}
# Phrases that hide the actor or the thing. Write instead: reported, another writer, resumes, not found, handled.
RETIRED_PHRASES = re.compile(
    r"""\b(
        (told|tell|tells|telling)\ of | (bring|brings|brought)\ into\ line | (gone|goes|go|going)\ on\ with
        | goes\ on\ (where|from\ there) | no\ such\ thing | somebody\ else | (he|she|one)\ who\ asks
        | without\ a\ word | comes\ to\ stand | hung\ up\ on | (look|looks|looked)\ after | where\ it\ was\ broken\ off
        | would\ come\ out | what\ (is|was)\ due | (what|that)\ was\ said | (who|others)\ kept\ \w+ing\ first
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
SENTENCE = re.compile(r"test_\w+|\w*NotFound\w*|\w*not_found\w*|NOT_FOUND|\w*one_by_one\w*|\w*at_most_once\w*")
"""Names that may contain a vague word: names of tests, of an error, and of common phrases."""
STORED_NAMES = {
    "__notes__",
    "get_one",
    "keep_blank_values",
    "one_of",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "timeout_keep_alive_task",
}
"""Names of Python, of urllib, of uvicorn and of test libraries."""
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")

PAGES = sorted(path for below in ("*.md", "docs/guides/*.md", "docs/concepts/*.md") for path in ROOT.glob(below))
PAGES = [path for path in PAGES if path.name != "CHANGELOG.md"]


def test_no_file_exceeds_the_maximum_number_of_lines() -> None:
    lengths = {short_name(path): text_of(path).count("\n") for path in FILES}
    assert {name for name, lines in lengths.items() if lines > FILE_LINES_MAX} <= set(LONG_FILES), "split the file"


def test_no_function_exceeds_the_maximum_number_of_lines() -> None:
    def too_long(path: Path) -> set[str]:
        sizes = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(path)}
        return {name for name, size in sizes.items() if size > FUNCTION_LINES_MAX}

    assert refused(FILES, too_long) == {}


def test_every_public_name_has_a_docstring() -> None:
    def undocumented(path: Path) -> set[str]:
        public = [node for node in tree_of(path).body if isinstance(node, NAMED) and not node.name.startswith("_")]
        missing = {node.name for node in public if not ast.get_docstring(node)}
        return missing if ast.get_docstring(tree_of(path)) else missing | {"the module"}

    assert refused(FILES, undocumented) == {}


def test_the_docstring_of_a_package_lists_each_of_its_modules() -> None:
    def differing(path: Path) -> set[str]:
        named = set(re.findall(r"^(\w+)  +\S", ast.get_docstring(tree_of(path)) or "", re.MULTILINE))
        here = [other for other in path.parent.iterdir() if other.suffix == ".py" or (other / "__init__.py").exists()]
        return {other.stem for other in here if not other.stem.startswith(("_", "test_"))} ^ named

    assert refused([path for path in FILES if path.name == "__init__.py"], differing) == {}


def test_every_name_in_all_is_unique_and_defined() -> None:
    def wrong(path: Path) -> set[str]:
        for node in tree_of(path).body:
            if isinstance(node, ast.Assign) and "__all__" in {ast.unparse(target) for target in node.targets}:
                names = Counter(ast.literal_eval(node.value))
                twice = {name for name, count in names.items() if count > 1}
                return twice | (set(names) - set(top_level_names(tree_of(path))))
        return set()

    assert refused(FILES, wrong) == {}


def test_no_two_packages_have_a_public_class_of_one_name() -> None:
    names = Counter(
        node.name
        for path in files(*PACKAGES)
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_a_module_is_a_noun() -> None:
    assert [path for path in files(*PACKAGES) if path.stem not in NOUNS and path.stem.endswith(("ing", "ed"))] == []


def test_no_identifier_uses_a_retired_word() -> None:
    assert refused(FILES, lambda path: names_with(RETIRED, identifiers(path))) == {}


def test_no_identifier_uses_a_vague_word() -> None:
    def vague(path: Path) -> set[str]:
        names = {name for name in identifiers(path) if not SENTENCE.fullmatch(name)}
        return names_with(RETIRED_IN_PYTHON, names) - STORED_NAMES

    assert refused(files(*PACKAGES, *PROGRAMS, *TESTS), vague) == {}


def test_no_comment_or_docstring_uses_a_retired_word() -> None:
    def retired(path: Path) -> set[str]:
        words = {word.lower() for word in re.findall(r"[A-Za-z]+", text_of(path))}
        return words & RETIRED - {"beside", "trouble"}

    assert refused(files(*PACKAGES), retired) == {}


def test_no_text_uses_a_retired_phrase() -> None:
    """The test covers code, guides, concept pages and top-level pages. Decisions may quote earlier texts."""

    def retired(path: Path) -> set[str]:
        return {matched.group() for matched in RETIRED_PHRASES.finditer(joined(text_of(path)))}

    assert refused([*files(*PACKAGES), *PAGES], retired) == {}


@pytest.mark.parametrize(
    "text",
    [
        'help="Failures are\n    told of."',
        '"an interrupted run goes "\n    "on where it was"',
        "# The rest is brought\n    # into line.",
        "There is no such thing.",
    ],
)
def test_a_retired_phrase_is_noticed_across_lines(text: str) -> None:
    assert RETIRED_PHRASES.search(joined(text))


def test_time_and_chance_come_from_the_clock() -> None:
    def used(path: Path) -> set[str]:
        names = {name for name in machine_calls(tree_of(path)) if BANNED_NAMES.match(name)}
        return names - {SEEDED_CHANCE} if {"testing", "simulation"} & {*path.parts} else names

    assert refused([path for path in FILES if path != CLOCK_FILE], used) == {}


def test_digits_are_recognised_only_by_is_decimal() -> None:
    """Use `codec.is_decimal`, because the methods of `str` also accept the digits of other scripts."""
    methods = {"isdecimal", "isdigit", "isnumeric"}
    assert refused(files(*PACKAGES), lambda path: methods & identifiers(path)).keys() <= {"src/stratalog/codec.py"}


def test_no_file_has_a_marker_of_unfinished_work() -> None:
    assert refused(FILES, lambda path: set(UNFINISHED.findall(text_of(path)))) == {}


def test_folders_are_at_most_two_deep() -> None:
    folders = {path.parent.relative_to(package_of(path)) for path in files(*PACKAGES)}
    assert {str(folder) for folder in folders if len(folder.parts) > FOLDER_DEPTH_MAX} == set()


def test_every_exception_for_a_long_file_is_still_needed() -> None:
    needed = {name for name in LONG_FILES if (ROOT / name).read_text().count("\n") > FILE_LINES_MAX}
    assert needed == set(LONG_FILES)


@pytest.mark.parametrize(
    "line",
    [
        "import time\ntime.sleep(1)",
        "from time import sleep as rest\nrest(1)",
        "import datetime as d\nd.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "import uuid\nuuid.uuid4()",
        "from os import urandom\nurandom(4)",
        "import random\nrandom.choice([1])",
    ],
)
def test_the_clock_check_sees_through_aliases(line: str) -> None:
    assert any(BANNED_NAMES.match(name) for name in machine_calls(ast.parse(line)))


def refused(paths: Iterable[Path], names_in: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """Return the names that a rule refuses in each file, by the file's short name. Leave out files without a match."""
    by_file = {short_name(path): names_in(path) for path in paths}
    assert by_file, "the rule got no files"
    return {name: names for name, names in by_file.items() if names}


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def names_with(words: Collection[str], names: Iterable[str]) -> set[str]:
    """Return the names that contain one of the words."""
    return {name for name in names if not {word.lower() for word in WORD.findall(name)}.isdisjoint(words)}


def joined(text: str) -> str:
    """Return a text on one line, without comment marks and without the quotation marks between its lines."""
    return " ".join(re.sub(r'"\n\s*f?"|\n\s*#', " ", text).split())


def top_level_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines or imports at top level, `if` and `with` included.

    Ruff checks the order of `__all__` (RUF022).
    """
    nested = [inner for node in tree.body if isinstance(node, ast.If | ast.With) for inner in node.body]
    for node in [*tree.body, *nested]:
        if isinstance(node, NAMED):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (ast.unparse(target) for target in getattr(node, "targets", [getattr(node, "target", node)]))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def identifiers(path: Path) -> frozenset[str]:
    """Return every name that a file defines or uses."""
    fields = ("id", "name", "attr", "arg", "asname", "module")
    values = (getattr(node, field, None) for node in ast.walk(tree_of(path)) for field in fields)
    return frozenset(value for value in values if isinstance(value, str))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def machine_calls(tree: ast.Module) -> Iterator[str]:
    """Yield the full dotted name of every name and attribute in a file that belongs to an imported module."""
    known = dict(imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, _, rest = ast.unparse(node).partition(".")
            if first in known:
                yield f"{known[first]}.{rest}" if rest else known[first]


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (name in the file, full name) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
