"""The command that serves a store over HTTP. What it needs beyond the library is imported only when it runs."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import structs

from stratalog.cli.output import dim, print_json
from stratalog.cli.session import Session, command
from stratalog.limits import LIVE_MESSAGE_BYTES_MAX
from stratalog.ports.meter import Meter

if TYPE_CHECKING:
    from stratalog.server.application import Application

__all__ = ["COMMANDS", "listening_at", "load_application", "of_every_server", "serve_application"]

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8420
BACKLOG_CONNECTIONS = 2048
SHUTDOWN_SECONDS = 5
F = TypeVar("F", bound=Callable[..., Any])


def of_every_server(function: F) -> F:
    """Add ``--host`` and ``--port``."""
    host = click.option("--host", default=HOST_DEFAULT, show_default=True, help="The address to listen at.")
    ports = click.IntRange(0, 65535)
    port = click.option("--port", type=ports, default=PORT_DEFAULT, show_default=True, help="0 takes any free one.")
    return host(port(function))


@command("serve", example="stratalog serve myapp:app --store ./data --port 8420")
@click.argument("application", required=False)
@of_every_server
@click.option("--queued", is_flag=True, help="Queue pushes for a worker instead of applying them.")
@click.option("--meter", is_flag=True, help="Count what AWS would bill for it, under /metrics.")
def serve(session: Session, application: str | None, host: str, port: int, queued: bool, meter: bool) -> None:
    """Serve the store over HTTP; make it where there is none.

    APPLICATION has mutators and rules of its own: the short name of one that is installed, or MODULE:NAME. Without one
    the built-in mutators are served, to this machine only.
    """
    loaded = load_application(application)
    if queued:
        loaded = structs.replace(loaded, queued=lambda organisation, document: True)
    serve_application(session, loaded, host, port, meter=Meter() if meter else None)


def serve_application(
    session: Session, application: Application, host: str, port: int, *, page: str = "", meter: Meter | None = None
) -> None:
    """Serve the session's store until a signal; make it where there is none. ``page`` is what to open of it."""
    server = _server_modules()
    if application.authenticate is None and not _is_loopback(host):
        raise click.UsageError(
            f"without authentication only this machine is served: --host {host} needs an application"
        )
    with listening_at(host, port) as listening:
        limits = session.settings.over("server", application.limits)
        store = session.open(create=True, meter=meter, settings=application.settings)
        app = server.create_app(store, structs.replace(application, limits=limits))
        _announce(session, host, listening.getsockname()[1], page)
        _run(server.uvicorn, app, listening)


class _Modules:
    """What `stratalog[server]` brings."""

    def __init__(self) -> None:
        self.uvicorn: Any = import_module("uvicorn")
        self.create_app: Any = import_module("stratalog.server.app").create_app
        self.Application: type[Application] = import_module("stratalog.server.application").Application
        self.find_application: Any = import_module("stratalog.server.applications").find_application


def _server_modules() -> _Modules:
    try:
        return _Modules()
    except ModuleNotFoundError as exc:
        raise click.ClickException(f'serving needs more: pip install "stratalog[server]" ({exc})') from exc


def load_application(text: str | None) -> Application:
    """The application called ``text``, looked for in the present folder too; the built-in mutators without a name.

    Raises Invalid for a name that leads to none, ClickException where the server's packages are not installed.
    """
    server = _server_modules()
    application: Application = server.find_application(text, os.getcwd()) if text else server.Application()
    return application


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening_at(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, so that whoever is told of it can connect at once. Raises ClickException."""
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG_CONNECTIONS
        )
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        hint = "; --port 0 takes any free one" if port else ""
        raise click.ClickException(f"cannot listen at {host} port {port}: {reason}{hint}") from exc
    with listening:
        # Inherited by each connection. asyncio sets it only where a socket names its protocol, which this one does not,
        # and without it an answer in two writes waits 40 ms for the caller's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listening


def _announce(session: Session, host: str, port: int, page: str) -> None:
    url = (f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}") + page
    if session.json:
        print_json({"url": url, "store": session.url, "pid": os.getpid()})
    else:
        click.echo(f"serving {session.url} at {url}  {dim('Ctrl+C stops')}")
    sys.stdout.flush()


def _run(uvicorn: Any, app: Any, listening: socket.socket) -> None:
    """Serve until a signal. Requests that run are finished; the store is closed after this."""
    config = uvicorn.Config(
        app,
        access_log=False,
        lifespan="on",
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=2 * LIVE_MESSAGE_BYTES_MAX,
    )
    # Uvicorn raises the signal once more after its own end, which would else end the process before the store closes.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = uvicorn.Server(config)
    stop = server.shutdown

    async def shutdown(sockets: Any = None) -> None:
        app.state.service.hub.close()
        await stop(sockets)

    server.shutdown = shutdown
    try:
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


COMMANDS = [serve]
