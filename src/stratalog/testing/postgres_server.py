"""A temporary PostgreSQL server. Its data are in a temporary folder, its socket in another."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob
from pathlib import Path
from shlex import quote as quoted
from tempfile import TemporaryDirectory
from urllib.parse import quote

from stratalog.testing.orphans import run_if_killed

__all__ = ["PostgresServer", "postgres_server"]

USER = "stratalog"
START_SECONDS_MAX = 60
SOCKETS = "/tmp"
"""The folder of sockets, even if `TMPDIR` is set. A socket's path has at most 107 bytes."""


class PostgresServer:
    """A server that a test can stop, kill and start again."""

    def __init__(self, programs: Path, folder: Path, sockets: str, options: Sequence[str]) -> None:
        self._programs = programs
        self._folder = folder
        self._sockets = sockets
        self._options = options
        # PostgreSQL refuses to run as root. If this process runs as root, PostgreSQL runs as `postgres`, a user that
        # Debian's package creates.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._data = folder / "data"

    @property
    def url(self) -> str:
        """The URL of the server's database, over the socket."""
        return self.url_with()

    def url_with(self, *others: PostgresServer) -> str:
        """Return a URL that names this server and ``others``.

        With ``target_session_attrs=read-write``, libpq connects to the server that accepts writes.
        """
        hosts = ",".join(quote(server._sockets, safe="") for server in (self, *others))
        return f"postgresql://{USER}@/postgres?host={hosts}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs of PostgreSQL find the server, for URLs like ``postgresql:///postgres``."""
        return {"PGHOST": self._sockets, "PGUSER": USER, "PGDATABASE": "postgres"}

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        return int((self._data / "postmaster.pid").read_text().partition("\n")[0])

    @property
    def is_running(self) -> bool:
        """Whether the server was started and not stopped. After a kill the value stays True."""
        return (self._data / "postmaster.pid").exists()

    def create(self, primary: PostgresServer | None = None) -> None:
        """Create the empty database. With ``primary``, copy that running server and follow it as a standby.

        Deletes the data of an earlier run.
        """
        if self._user:
            for folder in (self._folder, self._sockets):
                shutil.chown(folder, self._user)
        shutil.rmtree(self._data, ignore_errors=True)
        if primary is None:
            self._run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        else:
            source = f"host={primary._sockets} user={USER} application_name={self._folder.name}"
            self._run("pg_basebackup", "-R", "-c", "fast", "--no-sync", "-d", source)

    def promote(self) -> None:
        """Make a standby accept writes, and wait until it does."""
        self._run("pg_ctl", "-w", "-t", str(START_SECONDS_MAX), "promote")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = f"-k {self._sockets} -c listen_addresses= {' '.join(self._options)}"
        self._run("pg_ctl", "-w", "-t", str(START_SECONDS_MAX), "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: ``immediate`` ends its processes as a crash does, ``fast`` ends the sessions first."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, "-D", self._data, *arguments],
            user=self._user,
            cwd=self._folder,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            log = self._folder / "log"
            raise RuntimeError(f"{program} failed: {done.stdout}{log.read_text() if log.exists() else ''}")


@contextmanager
def postgres_server(options: Sequence[str] = (), primary: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """Run a server with a new, empty database until the end of the block. With ``primary``, run its standby.

    The server also ends if this process is killed.

    ``options`` are arguments of the server, such as ``-c fsync=off``. Raises RuntimeError if PostgreSQL is not
    installed or does not start.
    """
    # Do not use a folder of the caller: the server's user must reach it.
    make = partial(TemporaryDirectory, prefix="stratalog-")
    with make() as folder, make(dir=SOCKETS) as sockets:
        for made in (folder, sockets):
            Path(made).chmod(0o755)
        server = PostgresServer(_programs(), Path(folder), sockets, options)
        server.create(primary)
        # A test may start the server again, so the shell reads the process id at the kill. SIGQUIT shuts down at once.
        pid = f"$(head -n 1 {quoted(str(Path(folder) / 'data' / 'postmaster.pid'))})"
        try:
            with run_if_killed(f"kill -QUIT {pid}"):
                server.start()
                yield server
        finally:
            if server.is_running:
                server.stop()


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs, from the newest Debian package, else from `initdb` on PATH."""
    installed = sorted(glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(Path(path).parts[4]))
    initdb = installed[-1] if installed else shutil.which("initdb")
    if initdb is None:
        raise RuntimeError("PostgreSQL is not installed: run scripts/bootstrap postgres")
    return Path(initdb).resolve().parent
