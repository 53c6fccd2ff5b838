"""Each wheel has exactly the files of one package. The library's wheel has no application and no simulation."""

from __future__ import annotations

import re
import runpy
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import setuptools

from scripts import try_wheels
from tests.sources import APPLICATIONS, LIBRARY, ROOT, short_name

LINK = re.compile(r"(?<=])\(([^)]*)\)")

PROJECTS = [ROOT, *(package.parents[1] for package in APPLICATIONS)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, zipfile.ZipFile]:
    """Each distribution's wheel, by the distribution's folder."""
    folder = tmp_path_factory.mktemp("wheels")
    return {project: zipfile.ZipFile(try_wheels.build(project, folder)) for project in PROJECTS}


@pytest.fixture(scope="module")
def wheels(built: dict[Path, zipfile.ZipFile]) -> dict[Path, set[str]]:
    """The file names in each distribution's wheel, by the distribution's folder."""
    return {project: set(wheel.namelist()) for project, wheel in built.items()}


def packaged(package: Path) -> set[str]:
    """Return the names that the files of a package in this checkout have in a wheel."""
    paths = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package.parent).as_posix() for path in paths}


@pytest.mark.parametrize("package", [LIBRARY, *APPLICATIONS], ids=short_name)
def test_a_wheel_contains_exactly_the_files_of_its_package(wheels: dict[Path, set[str]], package: Path) -> None:
    project = ROOT if package == LIBRARY else package.parents[1]
    packed = {name for name in wheels[project] if ".dist-info/" not in name}
    assert packed == packaged(package)


def test_the_wheel_of_the_library_has_no_application_and_no_simulation(wheels: dict[Path, set[str]]) -> None:
    words = ("sheet", "catalogue", "simulation", "mutant", "world")
    assert [name for name in wheels[ROOT] for word in words if word in name] == []


@pytest.mark.parametrize("package", APPLICATIONS, ids=short_name)
def test_an_application_has_and_requires_the_version_of_the_library(package: Path) -> None:
    library = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    project = tomllib.loads((package.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["version"] == library["version"]
    assert f"stratalog=={library['version']}" in project["dependencies"]


@pytest.mark.parametrize("project", [*PROJECTS[1:], ROOT / "examples" / "guestbook"], ids=lambda path: path.name)
def test_every_requirement_on_the_library_names_its_version(project: Path) -> None:
    """This includes the requirements of extras, and those of the example that `docs/guides/server.md` installs."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    text = (project / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["version"] == version
    assert set(re.findall(r'"stratalog(?:\[[\w,]+\])?([=<>~!][^"]*)"', text)) == {f"=={version}"}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_distribution_has_the_licence(project: Path) -> None:
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert metadata["license-files"] == ["LICENSE"]
    assert (project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_the_description_of_a_distribution_is_its_readme_without_relative_links(
    built: dict[Path, zipfile.ZipFile], project: Path
) -> None:
    """A package index shows the description, where a relative link leads nowhere."""
    (name,) = (name for name in built[project].namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(built[project].read(name))
    description = metadata.get_payload(decode=True).decode()  # type: ignore[union-attr]
    readme = (project / "README.md").read_text()
    assert "](" in readme
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert [link for link in LINK.findall(description) if not link.startswith("https://")] == []
    assert words(description) == words(LINK.sub("", readme))


def words(text: str) -> list[str]:
    """Return the words of a text, without square brackets."""
    return re.sub(r"[][]", "", text).split()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_build_makes_a_description_without_relative_links(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(project / "setup.py"))
    assert [link for link in LINK.findall(given["long_description"]) if not link.startswith("https://")] == []


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_each_distribution_is_built_by_the_same_program(project: Path) -> None:
    assert (project / "setup.py").read_bytes() == (ROOT / "setup.py").read_bytes()
