"""An installation of the engine from npm checks pinned hashes. It completes, or it makes no folder of the engine."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha512
from pathlib import Path

import pytest

from stratalog.errors import Corrupt, Unavailable
from stratalog_sheet import engine_files
from stratalog_sheet.engine import engine_folder, install_engine

# A fake npm that copies the prepared packages.
NPM = "#!/bin/sh\ncp {source}/*.tgz .\n"

KILLED = """
from pathlib import Path
from stratalog_sheet import engine_files
engine_files._npm = lambda: [{npm!r}]
engine_files.install_engine(folder=Path({folder!r}))
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package of one file, its pins, and a fake npm. Return the folder from which npm copies the package."""
    source = tmp_path / "source"
    (source / "package").mkdir(parents=True)
    (source / "package" / "index.js").write_text("the engine")
    tarball = source / "scope-tool-1.0.0.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(source / "package", "package")
    npm = tmp_path / "npm"
    npm.write_text(NPM.format(source=source))
    npm.chmod(npm.stat().st_mode | stat.S_IEXEC)
    digest = b64encode(sha512(tarball.read_bytes()).digest()).decode()
    package = {
        "name": "@scope/tool",
        "version": "1.0.0",
        "license": "MIT",
        "integrity": f"sha512-{digest}",
        "folder": "tool",
        "files": ["index.js"],
    }
    pins = json.dumps({"about": "", "packages": [package]}).encode()
    monkeypatch.setattr(engine_files, "own_file", lambda name: pins)
    monkeypatch.setattr(engine_files, "_npm", lambda: [str(npm)])
    return source


def test_a_second_installation_fetches_no_file(fake: Path, tmp_path: Path) -> None:
    progress: list[str] = []
    home = install_engine(progress.append, tmp_path / "home")
    assert (home / "tool" / "index.js").read_text() == "the engine"
    install_engine(progress.append, tmp_path / "home")
    assert len(progress) == 1


def test_an_incomplete_installation_is_repeated(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "tool").mkdir(parents=True)
    assert (install_engine(folder=tmp_path / "home") / "tool" / "index.js").exists()


def test_a_package_that_differs_from_its_pinned_hash_is_refused(fake: Path, tmp_path: Path) -> None:
    with (fake / "scope-tool-1.0.0.tgz").open("ab") as tarball:
        tarball.write(b"more")
    with pytest.raises(Corrupt, match="pinned"):
        install_engine(folder=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_failure_of_npm_is_reported(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_files, "_npm", lambda: ["false"])
    with pytest.raises(Unavailable, match="npm could not fetch"):
        install_engine(folder=tmp_path / "home")


def test_the_environment_variable_names_the_engine_folder(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engine_files.ENVIRONMENT, str(tmp_path / "named"))
    with pytest.raises(Unavailable, match="sheet setup"):
        engine_folder()
    install_engine(folder=tmp_path / "named")
    assert engine_folder() == tmp_path / "named"


def test_an_installation_uses_the_folder_named_by_the_environment_variable(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named"
    monkeypatch.setenv(engine_files.ENVIRONMENT, str(named))
    named.mkdir()
    assert install_engine() == engine_folder() == named
    monkeypatch.setattr(engine_files, "_npm", lambda: pytest.fail("the engine is there"))
    assert install_engine() == named


def test_an_installation_refuses_a_named_folder_that_is_not_empty(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engine_files.ENVIRONMENT, str(tmp_path / "named"))
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "notes").touch()
    with pytest.raises(Unavailable, match="not empty"):
        install_engine()
    assert (tmp_path / "named" / "notes").exists()


def test_every_package_is_pinned_with_its_licence() -> None:
    pins = json.loads(engine_files.own_file("packages.json"))
    for package in pins["packages"]:
        assert package["integrity"].startswith("sha512-")
        assert package["license"]
        assert any("licen" in name.lower() or name == "README.md" for name in package["files"]), package["name"]


def test_an_installation_deletes_only_the_leftovers_of_a_killed_installation(fake: Path, tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    hang.write_text("#!/bin/sh\nexec sleep 60\n")
    hang.chmod(hang.stat().st_mode | stat.S_IEXEC)
    home = tmp_path / "home"
    killed = KILLED.format(folder=str(home), npm=str(hang))
    process = subprocess.Popen([sys.executable, "-c", killed], start_new_session=True)
    try:
        while not list(tmp_path.glob(".sheet-engine-*/unfinished-installation")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    theirs = tmp_path / ".sheet-engine-of-somebody"
    theirs.mkdir()
    (theirs / "notes").touch()
    (tmp_path / ".sheet-engine-empty").mkdir()
    assert len(list(tmp_path.glob(".sheet-engine-*"))) == 3
    install_engine(folder=home)
    assert list(tmp_path.glob(".sheet-engine-*")) == [theirs]


def test_concurrent_installations_fetch_the_files_once(fake: Path, tmp_path: Path) -> None:
    home, fetched = tmp_path / "home", list[str]()
    with ThreadPoolExecutor() as pool:
        for task in [pool.submit(install_engine, fetched.append, home) for _ in range(8)]:
            assert (task.result() / "tool" / "index.js").read_text() == "the engine"
    assert len(fetched) == 1
