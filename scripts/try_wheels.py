"""Install each application alone from wheels in an empty environment, and run its tests against the installation.

    make wheels            every application; or: .venv/bin/python scripts/try_wheels.py sheet

An application's lock, its wheel and the library's wheel must be enough to import the application and to run its
command. The application's tests need more packages, such as the emulators that `requirements/dev.lock` pins. The script
installs these packages after the application has run without them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.parent.name for path in ROOT.glob("apps/*/pyproject.toml"))
ALONE = """
import importlib.util, stratalog, {package}
assert stratalog.__file__.startswith({prefix!r}) and {package}.__file__.startswith({prefix!r})
assert [name for name in {others!r} if importlib.util.find_spec(name)] == []
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the named applications, or all applications."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("applications", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}  [default: all]")
    chosen = parser.parse_args(arguments).applications or NAMES
    with tempfile.TemporaryDirectory(prefix="stratalog-wheels-") as name:
        folder = Path(name)
        library = build(ROOT, folder)
        for application in chosen:
            try_application(application, library, folder)


def build(project: Path, folder: Path) -> Path:
    """Build a wheel from the project's files in git, so that it contains no other file."""
    copy, wheels = folder / f"source-{project.name}", folder / f"wheel-{project.name}"
    listed = run(["git", "ls-files", "-z"], cwd=project, capture=True).split("\0")
    for name in filter(None, listed):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((project / name).read_bytes())
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels, copy])
    (wheel,) = wheels.glob("*.whl")
    return wheel


def try_application(name: str, library: Path, folder: Path) -> None:
    """Install an application alone and check it, then install the packages that its tests need and run the tests."""
    project, environment = ROOT / "apps" / name, folder / f"environment-{name}"
    package = f"stratalog_{name}"
    run([sys.executable, "-m", "venv", environment])
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
    run([*install, "--require-hashes", "--requirement", project / "requirements.lock"])
    run([*install, library, build(project, folder)])
    others = [f"stratalog_{other}" for other in NAMES if other != name]
    run([python, "-c", ALONE.format(package=package, prefix=str(environment), others=others)], cwd=folder)
    run([python, "-m", "pip", "check"])
    run([environment / "bin" / "stratalog", name, "--help"], cwd=folder)
    print(f"{name}: installed alone, imported, its command runs", flush=True)
    run([*install, "--require-hashes", "--requirement", ROOT / "requirements" / "dev.lock"])
    run([python, "-m", "pytest", "-q", "-n", "auto", f"apps/{name}/tests"], cwd=ROOT)
    print(f"{name}: its tests pass against the installed library", flush=True)


def run(command: Sequence[str | Path], cwd: Path = ROOT, *, capture: bool = False) -> str:
    """Run a command without this checkout's packages. If it fails, the script fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    stdout = subprocess.PIPE if capture else None
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, check=True, text=True, stdout=stdout)
    return done.stdout or ""


if __name__ == "__main__":
    main()
