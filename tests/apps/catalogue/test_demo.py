"""The demo tells its story, and the script behind it gathers what apt holds."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from tests.apps.catalogue.helpers import DAY_NS, PACKAGE, START_NS

ROOT = Path(__file__).parents[3]


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_tells_its_story(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = loaded(ROOT / "examples" / "demo_catalogue.py")

    def gather(folder: Path) -> None:
        (folder / "debian").mkdir()
        for day, version in enumerate(("1.0", "1.1"), 1):
            path = folder / "debian" / f"{day}"
            path.write_text(PACKAGE.format(name="shell", version=version))
            os.utime(path, ns=(START_NS + day * DAY_NS, START_NS + day * DAY_NS))

    monkeypatch.setattr(demo, "gather", gather)
    monkeypatch.setattr("sys.argv", ["demo_catalogue.py", str(tmp_path / "store")])
    demo.main()
    told = capsys.readouterr().out
    for words in ("debian: 2 new", "1 works of 1 records", "0 differ", "found debian", "+Version: 1.1"):
        assert words in told


def test_states_are_made_of_what_apt_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = loaded(ROOT / "scripts" / "catalogue_data.py")
    indexes = {
        "stable": "Package: a\nArchitecture: all\nVersion: 1\n\nPackage: b\nArchitecture: all\nVersion: 1\n",
        "stable-security": "Package: b\nArchitecture: all\nVersion: 2\n",
    }
    for name, text in indexes.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(script, "debian_indexes", lambda: {name: [(tmp_path / name, 1e9)] for name in indexes})
    monkeypatch.setattr(script, "run", lambda command: Path(command[-1]).read_bytes())
    script.write_debian(tmp_path / "out" / "debian", 0)
    first, second = sorted((tmp_path / "out" / "debian").iterdir())
    assert (first.name, first.read_text().count("Version: 1")) == ("1-release", 2)
    assert "Version: 2" in second.read_text()
    assert first.stat().st_mtime < second.stat().st_mtime
    assert "<identifier>a</identifier>" in (tmp_path / "out" / "debian-xml" / "packages.xml").read_text()
