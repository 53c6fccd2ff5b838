"""The demo of the catalogue runs, and `scripts/catalogue_data.py` makes complete states from apt's package indexes."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from apps.catalogue.tests.helpers import DAY_NS, PACKAGE, START_NS
from stratalog import Store
from stratalog_catalogue.polls import Polled

ROOT = Path(__file__).parents[3]


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_continues_after_an_interruption_and_prints_its_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    demo = loaded(ROOT / "examples" / "demo_catalogue.py")
    served: list[list[str]] = []

    def gather(folder: Path) -> None:
        (folder / "packages").mkdir()
        for day, version in enumerate(("1.0", "1.1"), 1):
            path = folder / "packages" / f"{day}"
            path.write_text(PACKAGE.format(name="shell", version=version))
            os.utime(path, ns=(START_NS + day * DAY_NS, START_NS + day * DAY_NS))

    monkeypatch.setattr(demo, "gather", gather)
    monkeypatch.setattr(demo, "stratalog_program", served.append)
    with monkeypatch.context() as patch:
        patch.setattr(demo, "polled", interrupt)
        with pytest.raises(KeyboardInterrupt):
            demo.main(str(tmp_path / "store"), 0)
    demo.main(str(tmp_path / "store"), 0)
    printed = capsys.readouterr().out
    for words in ("packages: 2 new", "1 works of 1 records", "0 differ", "found packages", "+Version: 1.1", "/web/"):
        assert words in printed
    demo.main(str(tmp_path / "store"), 0)
    assert "there already" in capsys.readouterr().out
    assert [words[:3] for words in served] == [["catalogue", "serve", "demo"]] * 2


def interrupt(store: Store) -> list[Polled]:
    raise KeyboardInterrupt


def test_states_are_made_from_the_package_indexes_of_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = loaded(ROOT / "scripts" / "catalogue_data.py")
    texts = {
        "stable": {"a": "1", "b": "1", "c": "1"},
        "stable-security": {"b": "2", "d": "1"},
        "unstable": {"a": "3", "b": "2"},
    }
    for suite, packages in texts.items():
        lines = (f"Package: {name}\nArchitecture: all\nVersion: {version}\n" for name, version in packages.items())
        (tmp_path / suite).write_text("\n".join(lines))
    monkeypatch.setattr(script, "run", lambda command: Path(command[-1]).read_bytes())
    indexes = [(suite, tmp_path / suite, 1e9) for suite in texts]
    script.write_states(tmp_path / "out", indexes, script.package_key, 0)
    states = sorted((tmp_path / "out").iterdir())
    assert [state.name for state in states] == ["1-stable", "2-stable-security", "3-unstable"]
    versions = [re.findall(r"^Package: (.)\n.*\nVersion: (.)$", state.read_text(), re.M) for state in states]
    assert [dict(version) for version in versions] == [
        {"a": "1", "b": "1", "c": "1"},
        {"a": "1", "b": "2", "c": "1", "d": "1"},
        {"a": "3", "b": "2"},
    ]
    times = [state.stat().st_mtime for state in states]
    assert times == sorted(set(times))


def test_with_a_limit_every_state_has_the_same_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = loaded(ROOT / "scripts" / "catalogue_data.py")
    for suite, version in (("stable", "1"), ("stable-updates", "2")):
        packages = (PACKAGE.format(name=f"p{n}", version=version) for n in range(int(version), 40))
        (tmp_path / suite).write_text("\n".join(packages))
    monkeypatch.setattr(script, "run", lambda command: Path(command[-1]).read_bytes())
    indexes = [(suite, tmp_path / suite, 1e9) for suite in ("stable", "stable-updates")]
    script.write_states(tmp_path / "out", indexes, script.package_key, 10)
    names = [re.findall("^Package: (.*)$", state.read_text(), re.M) for state in sorted((tmp_path / "out").iterdir())]
    assert names[0] == names[1]
    assert len(names[0]) == 10


def test_rfcs_are_extracted_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = loaded(ROOT / "scripts" / "catalogue_data.py")
    archive = tmp_path / "package.tar"
    with tarfile.open(archive, "w") as made:
        for name in ("usr/rfc9110.json", "usr/rfc9110.xml.gz", "usr/rfc9110.txt.gz", "usr/copyright"):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = 4, 1_600_000_000
            made.addfile(member, io.BytesIO(b"body"))
    unpack = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", str(archive)]
    monkeypatch.setattr(script, "UNPACK", unpack[:-1])
    script.write_rfcs(tmp_path / "out", archive)
    paths = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert paths == ["rfc-xml/rfc9110.xml.gz", "rfc/rfc9110.json"]
    assert (tmp_path / "out" / "rfc" / "rfc9110.json").stat().st_mtime == 1_600_000_000
