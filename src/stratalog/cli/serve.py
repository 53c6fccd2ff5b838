"""The command that serves a store over HTTP. The command imports the server's packages only when it runs."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import structs

from stratalog.cli.output import dim
from stratalog.cli.session import Session, command
from stratalog.clock import Clock, SystemClock
from stratalog.extras import needs_extra
from stratalog.limits import ACCESS_LINES_PER_SECOND, SECURITY_LINES_PER_SECOND, SERVER_PROCESSES_MAX
from stratalog.ports.meter import Meter
from stratalog.store import Store

if TYPE_CHECKING:
    from stratalog.server.application import Application
    from stratalog.server.audit import Audit
    from stratalog.server.line_log import LineLog
    from stratalog.server.siblings import Siblings

__all__ = ["COMMANDS", "listening_at", "load_application", "of_every_server", "open_for", "serve_application"]

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8420
BACKLOG_CONNECTIONS = 2048
PROCESSES = "stratalog.processes"
"""The key under which click's context stores the value of ``--processes``."""
F = TypeVar("F", bound=Callable[..., Any])


def of_every_server(function: F) -> F:
    """Add ``--host``, ``--port`` and ``--processes`` to a command. The command gets arguments for the first two."""
    host = click.option("--host", default=HOST_DEFAULT, show_default=True, help="The address to listen on.")
    ports = click.IntRange(0, 65535)
    port = click.option(
        "--port", type=ports, default=PORT_DEFAULT, show_default=True, help="The port; 0 for any free port."
    )
    processes = click.option(
        "--processes",
        type=click.IntRange(1, SERVER_PROCESSES_MAX),
        default=1,
        show_default=True,
        expose_value=False,
        callback=_set_processes,
        help="Serve by several processes that share the port.",
    )
    return host(port(processes(function)))


def _set_processes(context: click.Context, parameter: click.Parameter, value: int) -> None:
    context.meta[PROCESSES] = value


@command("serve", example="stratalog serve myapp:app --store ./data --port 8420")
@click.argument("application", required=False)
@of_every_server
@click.option("--queued", is_flag=True, help="Queue pushes for a worker instead of applying them.")
@click.option(
    "--meter", is_flag=True, help="Count the units that AWS would bill for the store's requests; see /metrics."
)
@click.option("--access-log", metavar="FILE", help="Append a line of JSON for each response; - is standard output.")
@click.option(
    "--security-log",
    metavar="FILE",
    help="Append a line of JSON for each sign-in, refusal and withdrawn right; - is standard output.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Trust X-Forwarded-For from this proxy or network, as in 10.0.0.0/8; may be repeated.",
)
def serve(
    session: Session,
    application: str | None,
    host: str,
    port: int,
    queued: bool,
    meter: bool,
    access_log: str | None,
    security_log: str | None,
    trusted_proxies: tuple[str, ...],
) -> None:
    """Serve the store over HTTP; a missing store is created.

    APPLICATION is the short name of an installed application, or MODULE:NAME. The application has its own mutators and
    rules. Without APPLICATION the server has the built-in mutators and serves this machine only.
    """
    loaded = load_application(application)
    if queued:
        loaded = structs.replace(loaded, queued=lambda organisation, document: True)
    loaded = structs.replace(loaded, trusted_proxies=(*loaded.trusted_proxies, *trusted_proxies))
    logs = {"access": access_log, "security": security_log}
    serve_application(session, loaded, host, port, meter=Meter() if meter else None, logs=logs)


def serve_application(
    session: Session,
    application: Application,
    host: str,
    port: int,
    *,
    page: str = "",
    meter: Meter | None = None,
    logs: Mapping[str, str | None] = {},
) -> None:
    """Serve the session's store until a signal; create it if it is missing. ``page`` is the path of the printed URL.

    ``logs`` may name the files of an ``access`` and a ``security`` log. Raises UsageError for an application without
    authentication at an address beyond this machine, and ClickException if the address or a log cannot be opened.
    """
    with needs_extra("server", "serving"):
        from stratalog.server.app import create_app
        from stratalog.server.processes import take_membership
        from stratalog.server.web_server import serve as serve_until_signal
    membership = take_membership()
    if application.authenticate is None and not _is_loopback(host):
        raise click.UsageError(
            f"--host {host} is reachable from other machines, and needs an application with authentication"
        )
    processes = click.get_current_context().meta.get(PROCESSES, 1)
    if processes > 1 and membership is None:
        _supervise(session, host, port, page, processes, application)
        return
    siblings: Siblings | None = None
    with ExitStack() as entered:
        if membership is None:
            listening = entered.enter_context(listening_at(host, port))
        else:
            listening, siblings = membership.sockets()
            entered.enter_context(listening)
        limits = session.settings.over("server", application.limits)
        store = session.open(create=True, meter=meter, settings=application.settings)
        if store.announcements is None:
            store.announcements = siblings
        audit = entered.enter_context(_audit(store, logs))
        quotas = session.settings.over("quotas", application.quotas)
        served = structs.replace(application, limits=limits, quotas=quotas)
        app = create_app(store, served, audit=audit, siblings=siblings)
        if membership is None:
            _announce(session, host, listening.getsockname()[1], page, [os.getpid()])
        serve_until_signal(app, listening)


def _supervise(session: Session, host: str, port: int, page: str, processes: int, application: Application) -> None:
    """Serve by several processes until a signal. Each process runs this command, with the sockets of `Membership`."""
    from stratalog.server.processes import Supervisor

    if not hasattr(socket, "AF_UNIX"):
        raise click.UsageError("--processes needs an operating system with Unix sockets")
    # Create the store once. If it cannot be opened, only this process reports the error.
    session.open(create=True, settings=application.settings).close()
    with listening_at(host, port) as listening:
        bound = listening.getsockname()[1]
        command = [sys.executable, "-m", "stratalog", *sys.argv[1:]]
        supervisor = Supervisor(
            command, processes, listening, SystemClock(), lambda ids: _announce(session, host, bound, page, ids)
        )
        if status := supervisor.run():
            raise click.exceptions.Exit(status)


@contextmanager
def _audit(store: Store, logs: Mapping[str, str | None]) -> Iterator[Audit]:
    """Open the requested logs, and close them after the block. Raises ClickException if a log cannot be opened."""
    from stratalog.server.audit import Audit

    clock, rates = store.environment.clock, {"access": ACCESS_LINES_PER_SECOND, "security": SECURITY_LINES_PER_SECOND}
    opened: dict[str, LineLog] = {}
    try:
        for name, target in logs.items():
            if target is not None:
                opened[name] = _line_log(target, clock, rates[name])
        yield Audit(clock, **opened)
    finally:
        for log in opened.values():
            log.close()


def _line_log(target: str, clock: Clock, per_second: int) -> LineLog:
    from stratalog.server.line_log import LineLog

    try:
        return LineLog(target, clock, per_second)
    except OSError as exc:
        raise click.ClickException(f"cannot open the log file: {exc.strerror} file={target}") from exc


def load_application(text: str | None) -> Application:
    """Return the application named ``text``, also from the current folder.

    Without a name, return an application with the built-in mutators. Raises Invalid for an unknown name, and
    MissingExtra if the server's packages are not installed.
    """
    with needs_extra("server", "serving"):
        from stratalog.server.application import Application
        from stratalog.server.applications import find_application
    return find_application(text, os.getcwd()) if text else Application()


def open_for(session: Session, text: str | None, *, create: bool = False) -> tuple[Store, Application | None]:
    """Open the session's store with the rules and settings of the application named ``text``, if there is a name.

    Return the application too. Raises as `load_application` and `Session.open` do.
    """
    if not text:
        return session.open(create=create), None
    application = load_application(text)
    store = session.open(create=create, settings=application.settings)
    store.rules = application.rules
    return store, application


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening_at(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that already listens, so that a client can connect as soon as the caller prints the address.

    Raises ClickException if the socket cannot listen at the address.
    """
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG_CONNECTIONS
        )
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        hint = "; --port 0 takes any free port" if port else ""
        raise click.ClickException(f"cannot listen on {host} port {port}: {reason}{hint}") from exc
    with listening:
        # Each connection inherits the option. asyncio sets the option only on sockets that were created with the
        # protocol number IPPROTO_TCP, and `create_server` creates this socket with the number 0. Without the option a
        # response in two writes waits 40 ms for the client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listening


def _announce(session: Session, host: str, port: int, page: str, processes: Sequence[int]) -> None:
    url = (f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}") + page
    plain = {"url": url, "store": session.shown_url, "pid": os.getpid(), "processes": processes}
    session.answer(plain, f"serving {session.shown_url} at {url}  {dim('Ctrl+C stops')}")


COMMANDS = [serve]
