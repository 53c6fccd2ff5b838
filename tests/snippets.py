"""Run the snippets of a page in the current folder, one after another: `python -m tests.snippets PAGE`.

The Python blocks of a page share a namespace. ``sh`` blocks run line by line in the same folder. The program writes a
Python block whose first line is ``# NAME.py`` to that file, and runs the block unless NAME begins with ``test_``. `pip`
does nothing, since the environment of the tests has everything that pages install. A server or worker runs until the
page ends. The server uses a free port instead of the page's port. A `curl` fails if the response is an error.

HTML comments, before a block or alone, contain instructions for this program::

    <!-- snippet: skip, WHY -->         do not run the next block
    <!-- snippet: exit CODE -->         a line of the next block may end with this code
    <!-- snippet: file NAME -->         write the next block, of any language, to a file, and do not run it
    <!-- snippet: with TEXT=COMMAND --> replace TEXT in the next block by the output of COMMAND
    <!-- snippet: sh ... -->            run these lines
    <!-- snippet: python ... -->        run this code in the namespace of the page
    <!-- snippet: apart ... -->         run these lines in an empty folder, and later snippets in copies of it
    <!-- snippet: aws -->               use new emulators on this machine for DynamoDB, S3 and SQS from here on
    <!-- snippet: postgres -->          use a new server of PostgreSQL on this machine from here on
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import click

from stratalog.cli import main as stratalog
from stratalog.testing.aws_local import aws_local
from stratalog.testing.postgres_server import postgres_server

__all__ = ["Snippet", "SnippetFailure", "run_page", "snippets_of"]

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^<!-- snippet: (?P<order>.*?)\s*-->|^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
LANGUAGES = ("python", "sh", "console")
FILE_NAME = re.compile(r"# ([\w/]+\.py)\b")
PORT = "8420"
"""The port that the pages name."""

SERVER_SECONDS_MAX = 300
COMMAND_SECONDS_MAX = 300
SHIMS = {
    "curl": f'exec {shutil.which("curl")} --silent --show-error --fail-with-body "$@"',
    "pip": "exit 0",
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
    "python3": f'exec {shlex.quote(sys.executable)} "$@"',
    "stratalog": f'exec {shlex.quote(sys.executable)} -m stratalog "$@"',
}


SAY_WHERE = "{ pwd; env -0; }"
"""Prints the shell's folder on a line, and its variables, each with a NUL after it."""


class SnippetFailure(AssertionError):
    """A snippet failed, or does not match its instructions."""


@dataclass(frozen=True)
class Snippet:
    """A block of a page, with the instructions of the comments before it."""

    line: int
    language: str
    text: str
    skipped: str = ""
    exit_code: int = 0
    file: str = ""
    stand_ins: tuple[str, ...] = ()
    hidden: bool = False
    apart: bool = False


def snippets_of(page: str) -> Iterator[Snippet]:
    """Yield the snippets of a page's text in order.

    Raises ValueError for an unknown comment, and for a comment without a snippet after it.
    """
    order: dict[str, Any] = {}
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start()) + 1
        if match["order"] is not None:
            word, _, rest = match["order"].partition("\n") if "\n" in match["order"] else match["order"].partition(" ")
            if word in ("sh", "python", "apart", "aws", "postgres"):
                language = "sh" if word == "apart" else word
                yield Snippet(line, language, rest + "\n", hidden=True, apart=word == "apart")
            else:
                order = _order(line, match["order"], order)
            continue
        if match["language"] not in LANGUAGES and "file" not in order:
            if order:
                raise ValueError(f"line {line}: the program cannot run the language of the block after a comment")
            continue
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        snippet = Snippet(line, "python" if match["language"] == "python" else "sh", text)
        if match["language"] == "console":
            snippet = replace(snippet, text="".join(_typed(text)))
        yield replace(snippet, **order)
        order = {}
    if order:
        raise ValueError(f"no snippet follows the last comment: {order}")


def _order(line: int, text: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the instructions for a block: the instructions ``given`` by earlier comments, and the one in ``text``."""
    if matched := re.fullmatch(r"skip, (\S.*)", text, re.DOTALL):
        return given | {"skipped": " ".join(matched[1].split())}
    if matched := re.fullmatch(r"exit (\d+)", text):
        return given | {"exit_code": int(matched[1])}
    if matched := re.fullmatch(r"file (\S+)", text):
        return given | {"file": matched[1]}
    if matched := re.fullmatch(r"with (\S+?=\S.*)", text):
        return given | {"stand_ins": (*given.get("stand_ins", ()), matched[1])}
    raise ValueError(f"line {line}: unknown comment: snippet: {text}")


def _typed(text: str) -> Iterator[str]:
    """Return the lines of a console block that a person types."""
    return (line.removeprefix("$ ") for line in text.splitlines(keepends=True) if line.startswith("$ "))


def run_page(name: str, text: str) -> None:
    """Run a page's snippets in the current folder. Raises SnippetFailure for the first snippet that fails."""
    with contextlib.ExitStack() as leaving:
        page = _Page(name, leaving)
        for snippet in snippets_of(text):
            if not snippet.skipped:
                page.run(snippet)


class _Page:
    """The state that a page's snippets share."""

    def __init__(self, name: str, leaving: contextlib.ExitStack) -> None:
        self.name = name
        self.leaving = leaving
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.port = _free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self.tools = Path.cwd().parent / "tools"
        self.base: Path | None = None
        self.is_used = False
        self._make_tools()
        sys.path.insert(0, os.getcwd())

    def run(self, snippet: Snippet) -> None:
        """Run a snippet, in a new copy of the folder if an ``apart`` comment asks for copies."""
        if snippet.apart:
            self.base = None
            os.chdir(self._new_folder())
        elif self.base and self.is_used:
            folder = self._new_folder()
            shutil.copytree(self.base, folder, dirs_exist_ok=True)
            os.chdir(folder)
        self.is_used = not snippet.hidden
        self._run(snippet)
        if snippet.apart:
            self.base, self.is_used = Path.cwd(), True

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.tools))

    def _run(self, snippet: Snippet) -> None:
        snippet = replace(snippet, text=self._filled_in(snippet).replace(PORT, str(self.port)))
        matched = FILE_NAME.match(snippet.text)
        file = snippet.file or (matched[1] if matched and snippet.language == "python" else "")
        if file:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(snippet.text)
        if snippet.file or Path(file).name.startswith("test_"):
            return
        if snippet.language == "aws":
            os.environ.update(self.leaving.enter_context(aws_local(self._new_folder())))
        elif snippet.language == "postgres":
            os.environ.update(self.leaving.enter_context(postgres_server(["-c fsync=off"])).environment)
        elif snippet.language == "python":
            self._run_python(snippet, file)
        else:
            for line, command in _commands(snippet):
                self._run_command(line, command, {0, snippet.exit_code})

    def _filled_in(self, snippet: Snippet) -> str:
        """Return the text with its placeholders replaced by the output of their commands."""
        text = snippet.text
        for each in snippet.stand_ins:
            shown, _, command = each.partition("=")
            script = ["sh", "-c", command]
            done = subprocess.run(script, timeout=COMMAND_SECONDS_MAX, env=self._environment(), check=True, stdout=PIPE)
            if shown not in text:
                raise SnippetFailure(f"{self.name}:{snippet.line}: the snippet does not contain {shown}")
            text = re.sub(rf"{re.escape(shown)}(?![\w-])", done.stdout.decode().strip(), text)
        return text

    def _run_python(self, snippet: Snippet, file: str) -> None:
        sys.path[0] = os.getcwd()
        shown = file or self.name
        self.namespace["__file__"] = os.path.abspath(shown)
        try:
            program = compile("\n" * snippet.line + snippet.text, shown, "exec", dont_inherit=True)
            exec(program, self.namespace)
        except BaseException as exc:
            raise SnippetFailure(f"{self.name}:{snippet.line}: {traceback.format_exc(limit=-4)}") from exc

    def _run_command(self, line: int, command: str, codes: set[int]) -> None:
        words = shlex.split(command, comments=True)
        if not words:
            return
        if words[0] == "stratalog" and ("serve" in words or "work" in words):
            self._start(line, words)
            return
        code = _run_here(words[1:]) if is_plain(command) and words[0] == "stratalog" else self._run_in_shell(command)
        if code not in codes:
            raise SnippetFailure(f"{self.name}:{line}: exit code {code}: {command}")

    def _run_in_shell(self, command: str) -> int:
        """Run a line in a shell. After success, take over the shell's folder and ``STRATALOG_`` variables."""
        after = self.tools / "after"
        where = f"{SAY_WHERE} > {shlex.quote(str(after))}"
        script = f"{command}\ncode=$?\n{where}\nexit $code"
        done = subprocess.run(["sh", "-c", script], timeout=COMMAND_SECONDS_MAX, env=self._environment(), check=False)
        if done.returncode == 0:
            folder, _, settings = after.read_text().partition("\n")
            os.chdir(folder)
            own = (setting.partition("=") for setting in settings.split("\0") if setting.startswith("STRATALOG_"))
            os.environ.update({name: value for name, _, value in own})
        return done.returncode

    def _start(self, line: int, words: list[str]) -> None:
        """Start a server or a worker, which runs until the page ends. A second server replaces the first."""
        words = [os.path.expandvars(word) for word in words]
        serves = "serve" in words
        if serves and "--port" not in words:
            words = [*words, "--port", str(self.port)]
        if serves and self.server:
            _stop(self.server)
        process = subprocess.Popen(words, env=self._environment())
        self.leaving.callback(_stop, process)
        if serves:
            self.server = process
            _wait_for(process, self.port, f"{self.name}:{line}: {shlex.join(words)}")

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}

    def _make_tools(self) -> None:
        self.tools.mkdir()
        for name, script in SHIMS.items():
            tool = self.tools / name
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
        os.environ["PATH"] = f"{self.tools}:{os.environ['PATH']}"


def _commands(snippet: Snippet) -> Iterator[tuple[int, str]]:
    """Yield each command with the number of its first line. A backslash continues a command on the next line."""
    command, first = "", 0
    for number, line in enumerate(snippet.text.splitlines(), snippet.line + 1):
        command, first = command + line, first or number
        if not line.endswith("\\"):
            yield first, command
            command, first = "", 0
        else:
            command = command.removesuffix("\\")


def is_plain(command: str) -> bool:
    """Return whether a line is a single command without a shell's operators or variables."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return not any(set(word) <= set("();<>|&") for word in lexer) and "$" not in command.split(" #")[0]


def _run_here(arguments: list[str]) -> int:
    """Run a command of ``stratalog`` in this process, since a new Python process takes half a second to start."""
    try:
        stratalog(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int, what: str) -> None:
    deadline = time.monotonic() + SERVER_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=SERVER_SECONDS_MAX).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SnippetFailure(f"{what}: no server answers")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(SERVER_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    try:
        run_page(sys.argv[1], (ROOT / path).read_text())
    except SnippetFailure as failure:
        click.echo(str(failure), err=True)
        sys.exit(1)
