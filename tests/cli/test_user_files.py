"""A failed command changes no file that its user named. An error of the file system is one line of output."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import output_file
from stratalog.errors import Invalid
from stratalog.records import Records
from tests.cli.conftest import Run

OLD = b"of the user"


@pytest.fixture
def report(budget: Run) -> Run:
    """Run the program on a store that has a record of two versions, in a folder with the file ``out``."""
    budget("records", "put", "acme/report", typed="one")
    budget("records", "put", "acme/report", typed="two")
    Path("out").write_bytes(OLD)
    return budget


@pytest.mark.parametrize(
    ("arguments", "code"), [(("acme/none",), 3), (("acme/report", "--at", "7"), 3), (("acme/damaged",), 6)]
)
def test_a_record_that_cannot_be_read_leaves_an_existing_file_unchanged(
    arguments: tuple[str, ...], code: int, report: Run
) -> None:
    Path("body").write_bytes(os.urandom(100_000))
    report("records", "put", "acme/damaged", "body")
    (blob,) = [path for path in Path("store/blobs").rglob("bodies/*") if not path.name.startswith(".")]
    blob.write_bytes(b"damaged")
    report("records", "get", *arguments, "--output", "out", code=code)
    assert Path("out").read_bytes() == OLD
    report("records", "get", *arguments, "--output", "new", code=code)
    assert {path.name for path in Path().iterdir()} == {"body", "out", "store"}


def test_the_answer_describes_the_version_that_was_written(report: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Records.open

    def overtaken(self: Records, id: str, version: int | None = None) -> Any:
        parts = list(original(self, id, version))
        self.put(id, b"three")
        return iter(parts)

    monkeypatch.setattr(Records, "open", overtaken)
    answer = json.loads(report("records", "get", "acme/report", "--output", "out", "--json").stdout)
    assert (answer["version"], Path("out").read_bytes()) == (2, b"two")


def test_an_export_leaves_a_file_with_the_suffix_partial_unchanged(budget: Run) -> None:
    Path("budget.jsonl.partial").write_bytes(OLD)
    budget("export", "acme/budget", "budget.jsonl")
    assert Path("budget.jsonl.partial").read_bytes() == OLD


def test_two_commands_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with output_file(target) as first, output_file(target) as second:
        first.write(b"first")
        second.write(b"second")
    assert target.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_existing_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_bytes(OLD)
    target.chmod(0o644)
    link.symlink_to(target)
    with output_file(link) as out:
        out.write(b"new")
    assert link.is_symlink()
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", 0o644)


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with output_file(pipe) as out:
            out.write(b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_the_standard_output_is_written_directly(name: str, tmp_path: Path) -> None:
    """Standard output is a pipe, and then a file that is open for appending."""
    program = f"from stratalog.cli import output_file\nwith output_file({name!r}) as out: out.write(b'new')"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"new"
    (tmp_path / "out").write_bytes(OLD)
    with (tmp_path / "out").open("ab") as file:
        subprocess.run(command, check=True, stdout=file)
    assert (tmp_path / "out").read_bytes() == OLD + b"new"


def test_a_descriptor_that_is_not_open_is_named() -> None:
    with pytest.raises(OSError, match="/dev/fd/99999"), output_file("/dev/fd/99999"):
        pass


@pytest.mark.parametrize("step", ["tempfile.mkstemp", "os.replace"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EBUSY])
def test_an_existing_file_that_cannot_be_replaced_stays_unchanged_with_an_error(
    number: int, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test simulates the errors, since tests may run as root, and root may write in every folder."""
    target = tmp_path / "out"
    target.write_bytes(OLD)

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number), "/elsewhere")

    monkeypatch.setattr(f"stratalog.cli.files.{step}", fail)
    with pytest.raises(Invalid, match="cannot be replaced in its folder") as raised, output_file(target) as out:
        out.write(b"new")
    assert (raised.value.details["file"], raised.value.details["reason"]) == (str(target), os.strerror(number))
    assert target.read_bytes() == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(OSError, match="new"), output_file(tmp_path / "new") as out:
        out.write(b"new")


def test_an_output_file_without_a_name_is_refused(report: Run) -> None:
    answer = report("records", "get", "acme/report", "--output", "", code=2)
    assert "the name of the output file is empty" in answer.stderr


def test_checkpoint_key_does_not_overwrite_an_existing_file(report: Run) -> None:
    answer = report("checkpoint-key", "example.com/ledger", "out", code=2)
    assert "out exists" in answer.stderr
    assert Path("out").read_bytes() == OLD


@pytest.mark.parametrize(
    "arguments",
    [
        ("checkpoint-key", "example.com/ledger", "none/key"),
        ("export", "acme/budget", "none/budget.jsonl"),
        ("records", "get", "acme/report", "--output", "none/out"),
        ("verify", "--resume", "none/finished"),
        ("checkpoint", "--all", "--key", "signing.key", "--lines", "none/list"),
        ("export", "acme/budget", f"/{'n' * 300}"),
    ],
)
def test_an_error_of_the_file_system_is_one_line(arguments: tuple[str, ...], report: Run) -> None:
    report("checkpoint-key", "example.com/ledger", "signing.key")
    answer = report(*arguments, code=2)
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"error: {arguments[-1]}: ")
    error = json.loads(report(*arguments, "--json", code=2).stderr)["error"]
    assert (error["code"], error["message"]) == ("usage", line.removeprefix("error: "))


@pytest.mark.parametrize(
    "arguments",
    [("checkpoint", "acme/budget", "--key", "bytes"), ("verify", "--against", "bytes"), ("verify", "--key", "bytes")],
)
def test_a_file_that_is_not_utf_8_text_is_refused(arguments: tuple[str, ...], report: Run) -> None:
    report("checkpoint-key", "example.com/ledger", "signing.key")
    Path("note").write_text(report("checkpoint", "acme/budget", "--key", "signing.key").stdout)
    Path("bytes").write_bytes(b"\xff\xfe")
    against = () if "checkpoint" in arguments or "--against" in arguments else ("--against", "note")
    assert "not UTF-8 text" in report(*arguments, *against, code=2).stderr


@pytest.mark.parametrize("content", [b"no line end", b"a line\nno line end"])
def test_verify_does_not_truncate_a_resume_file_of_another_format(content: bytes, report: Run) -> None:
    Path("out").write_bytes(content)
    assert "not a file of verify --resume" in report("verify", "--resume", "out", code=2).stderr
    assert Path("out").read_bytes() == content


def test_verify_removes_an_incomplete_last_line_of_its_resume_file(report: Run) -> None:
    report("verify", "--resume", "finished")
    complete = Path("finished").read_bytes()
    for cut in (b"{", complete[:40]):
        Path("finished").write_bytes(complete + cut)
        report("verify", "--resume", "finished")
        assert Path("finished").read_bytes() == complete


def test_a_write_that_fails_names_the_file(report: Run, tmp_path: Path) -> None:
    """A write to `/dev/full` fails as on a full disk. The other file is limited in size."""
    assert "/dev/full" in report("records", "get", "acme/report", "--output", "/dev/full", code=2).stderr
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="out") as caught, output_file("out") as out:
            out.write(bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, "out")
    assert Path("out").read_bytes() == OLD


def test_a_sync_that_fails_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("stratalog.cli.files.sync_descriptor", full)
    with pytest.raises(OSError, match="out") as caught, output_file(tmp_path / "out") as out:
        out.write(b"new")
    assert caught.value.filename == str(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
