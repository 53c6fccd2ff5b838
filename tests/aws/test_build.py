"""The zip for Lambda is reproducible and has only the files that its functions need. The tests download nothing."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import re
import shutil
import ssl
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import botocore
import pytest

from tests.aws.template import resources
from tests.processes import ROOT


@pytest.fixture(scope="module")
def build() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("deploy_aws_build", str(ROOT / "deploy/aws/build"))
    spec = importlib.util.spec_from_loader("deploy_aws_build", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def application(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "index.html").write_text("<p>")
    return folder


def test_the_zip_holds_the_package_and_the_application(build: ModuleType, application: Path, tmp_path: Path) -> None:
    build.pack(tmp_path / "f.zip", [ROOT / "src"], [application])
    names = set(zipfile.ZipFile(tmp_path / "f.zip").namelist())
    assert {"stratalog/aws/api.py", "stratalog/web/client/stratalog.js", "pages/index.html"} <= names
    assert [name for name in names if name.startswith("stratalog/testing")] == []


def test_the_zip_has_bytecode_that_needs_no_check(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda unpacks the zip into a read-only folder, so a function cannot store the bytecode that it compiles."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "module.py").write_text("NUMBER = 1\n")
    (folder / "broken.py").write_text("a template, no module\n")
    monkeypatch.setattr(build, "PYTHON", f"{sys.version_info.major}.{sys.version_info.minor}")
    build.pack(tmp_path / "f.zip", [], [folder])
    with zipfile.ZipFile(tmp_path / "f.zip") as archive:
        name = f"package/__pycache__/module.{sys.implementation.cache_tag}.pyc"
        assert sorted(archive.namelist()) == sorted([name, "package/broken.py", "package/module.py"])
        # Bytes 4 to 7 are the flags of PEP 552. Bit 0 means that a hash of the source follows. Bit 1 would mean that
        # Python must compare this hash with the source.
        assert int.from_bytes(archive.read(name)[4:8], "little") == 0b01


def test_without_the_functions_version_of_python_the_zip_has_no_bytecode(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module.py").write_text("NUMBER = 1\n")
    monkeypatch.setattr(build, "PYTHON", "2.99")
    build.pack(tmp_path / "f.zip", [], [tmp_path / "module.py"])
    assert zipfile.ZipFile(tmp_path / "f.zip").namelist() == ["module.py"]


def test_the_zip_has_each_root_certificate_by_its_hash(build: ModuleType, tmp_path: Path) -> None:
    bundle = Path(botocore.__file__).parent / "cacert.pem"
    (tmp_path / "botocore").mkdir()
    shutil.copy(bundle, tmp_path / "botocore")
    build.add_certificates(tmp_path)
    certificates = sorted(path.read_text() for path in (tmp_path / "certificates").iterdir())
    assert len(certificates) == bundle.read_text().count("BEGIN CERTIFICATE") > 100
    assert all(re.fullmatch(r"[0-9a-f]{8}\.[0-9]", path.name) for path in (tmp_path / "certificates").iterdir())
    # OpenSSL finds Amazon's first root by this name: a hash that `openssl x509 -subject_hash` prints, and a number.
    (amazon,) = [path for path in (tmp_path / "certificates").iterdir() if path.name == "ce5e74ef.0"]
    assert ssl.PEM_cert_to_DER_cert(amazon.read_text()).count(b"Amazon Root CA 1") == 2


def test_the_same_files_make_the_same_bytes(build: ModuleType, application: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    build.pack(first, [application], [])
    (application / "index.html").touch()
    build.pack(second, [application], [])
    assert first.read_bytes() == second.read_bytes()


def test_the_written_metadata_has_the_version_of_the_package(build: ModuleType, tmp_path: Path) -> None:
    build.write_metadata(tmp_path, ROOT)
    (distribution,) = importlib.metadata.distributions(name="stratalog", path=[str(tmp_path)])
    assert distribution.version == importlib.metadata.version("stratalog")


@pytest.mark.parametrize("name", ["catalogue", "sheet", "table"])
def test_each_bundled_application_has_an_entry_point_with_its_short_name(
    build: ModuleType, name: str, tmp_path: Path
) -> None:
    build.write_metadata(tmp_path, ROOT / "apps" / name)
    (distribution,) = importlib.metadata.distributions(name=f"stratalog-{name}", path=[str(tmp_path)])
    (point,) = distribution.entry_points.select(group="stratalog.applications")
    assert point.name == name
    assert point in importlib.metadata.distribution(f"stratalog-{name}").entry_points


def test_each_wanted_library_has_hashes_in_the_lock(build: ModuleType) -> None:
    lock = build.pinned(build.LOCK.read_text())
    projects = [ROOT, *(path.parent for path in ROOT.glob("apps/*/pyproject.toml"))]
    asked = [build.canonical(requirement.partition(">")[0]) for requirement in build.wanted(projects)]
    assert {"mini-racer", "pyarrow"} < set(asked)
    assert [name for name in asked if "--hash=sha256:" not in lock[name]] == []


def test_the_zip_has_only_the_botocore_models_of_the_services_in_use(build: ModuleType) -> None:
    assert build.is_wanted(("botocore", "data", "dynamodb", "2012-08-10", "service-2.json.gz"))
    assert build.is_wanted(("botocore", "data", "endpoints.json"))
    assert not build.is_wanted(("botocore", "data", "ec2", "2016-11-15", "service-2.json.gz"))


def test_the_wheels_match_the_runtime_and_architecture_of_the_template(build: ModuleType) -> None:
    functions = resources("AWS::Lambda::Function").values()
    assert {function["Runtime"] for function in functions} == {f"python{build.PYTHON}"}
    assert {tuple(function["Architectures"]) for function in functions} == {("arm64",)}
    assert all(platform.endswith("_aarch64") for platform in build.PLATFORMS)


def test_a_zip_that_is_too_large_for_lambda_ends_the_build_with_an_error(
    build: ModuleType, application: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "UNZIPPED_BYTES_MAX", 2)
    with pytest.raises(SystemExit, match="more than Lambda takes"):
        build.pack(tmp_path / "f.zip", [application], [])
