"""The script fetches the demo's data once, with an npm whose Node is new enough.

The script refuses data that does not have the pinned hash.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "dataset.py"
CONTENT = b'[{"Title": 1776}]'


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with its own folder, and with a fake npm, which fetches a small package with the pinned hash."""
    spec = importlib.util.spec_from_file_location("dataset", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.MOVIES = tmp_path / "share" / "movies.json"
    script.FOLDER = script.MOVIES.parent
    script.MEMBERS = {"package/data/movies.json": script.MOVIES}
    script.MOVIES_SHA256 = hashlib.sha256(CONTENT).hexdigest()
    tarball = packed_of(tmp_path)
    script.INTEGRITY = f"sha512-{base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()}"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    program(tmp_path, "node", "echo v20.19.0")
    program(tmp_path, "npm", f"cp '{tarball}' . && echo asked >> '{tmp_path / 'asked'}'")
    return script


def test_the_movies_are_fetched_once(dataset: ModuleType, tmp_path: Path) -> None:
    dataset.main()
    dataset.main()
    assert dataset.MOVIES.read_bytes() == CONTENT
    assert asked(tmp_path) == 1


def test_movies_that_changed_on_disk_are_fetched_again(dataset: ModuleType, tmp_path: Path) -> None:
    dataset.main()
    dataset.MOVIES.write_bytes(CONTENT[:-1])
    dataset.main()
    assert dataset.MOVIES.read_bytes() == CONTENT
    assert asked(tmp_path) == 2


def test_a_package_with_other_content_is_refused(
    dataset: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "package.tgz").open("ab") as tarball:
        tarball.write(b"\0")
    with pytest.raises(SystemExit):
        dataset.main()
    assert "is not what is pinned" in capsys.readouterr().err
    assert not dataset.MOVIES.exists()


def test_a_failure_of_npm_is_reported(dataset: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(tmp_path, "npm", "exit 1")
    with pytest.raises(SystemExit):
        dataset.main()
    assert "npm could not fetch" in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["echo v18.20.4", "echo v20.18.3", "echo nonsense", "exit 1"])
def test_a_node_that_is_too_old_or_broken_is_not_used(dataset: ModuleType, tmp_path: Path, answer: str) -> None:
    assert dataset.npm_on_path() == [str(tmp_path / "bin" / "npm")]
    program(tmp_path, "node", answer)
    assert dataset.npm_on_path() is None


def packed_of(folder: Path) -> Path:
    movies, tarball = folder / "content.json", folder / "package.tgz"
    movies.write_bytes(CONTENT)
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(movies, "package/data/movies.json")
    return tarball


def program(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def asked(folder: Path) -> int:
    return (folder / "asked").read_text().count("asked")
