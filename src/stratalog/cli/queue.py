"""Commands on the queue: the worker that applies queued pushes, and dead letters."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import click
from msgspec import structs

from stratalog.cli.naming import FiniteRange
from stratalog.cli.output import dim, local_time, note
from stratalog.cli.program import FAILED, Failed
from stratalog.cli.serve import open_for
from stratalog.cli.session import CommandGroup, Session, command, of_every_command
from stratalog.errors import StratalogError
from stratalog.extras import needs_extra
from stratalog.limits import RECEIVE_MESSAGES_MAX, VISIBILITY_SECONDS_MAX
from stratalog.protocol.readable import from_json
from stratalog.store import Store

__all__ = ["COMMANDS"]

HEARTBEATS_PER_TIMEOUT = 4
ACKNOWLEDGING_THREADS = RECEIVE_MESSAGES_MAX
"""The worker combines up to this many messages into one entry, and acknowledges each message in a thread of its own.
Acknowledgements at the same time can share a transaction."""


@command("work", example="stratalog work myapp:app --store ./data")
@click.argument("application", required=False)
@click.option("--drain", is_flag=True, help="Exit once the queue delivers no message.")
@click.option(
    "--visibility",
    type=FiniteRange(0.1, VISIBILITY_SECONDS_MAX),
    metavar="SECONDS",
    help="How long messages stay hidden from other workers after their worker has crashed.  [default: 30]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve the worker's metrics for Prometheus on this port of the loopback interface. 0 chooses a free port.",
)
def work(
    session: Session, application: str | None, drain: bool, visibility: float | None, metrics_port: int | None
) -> None:
    """Apply the pushes that `stratalog serve --queued` has queued, until a signal.

    After a signal, the worker finishes the pushes in flight and releases its other messages.

    APPLICATION is the served application: a short name, or MODULE:NAME. Several workers may share a store. Each worker
    is a process of its own.
    """
    module = _module("stratalog.worker.worker")
    store, _ = open_for(session, application, create=True)
    settings = session.settings.over("worker", module.WorkerSettings())
    if visibility is not None:
        settings = structs.replace(settings, visibility_seconds=visibility)
    if metrics_port is not None:
        metrics_port = _serve_metrics(store, metrics_port)
    with ThreadPoolExecutor(ACKNOWLEDGING_THREADS, thread_name_prefix="stratalog-acknowledge") as executor:
        worker = module.Worker(store, settings, _report_failure, executor)
        metrics = "" if metrics_port is None else f"  metrics at http://127.0.0.1:{metrics_port}/metrics"
        session.answer(
            {"store": session.shown_url, "pid": os.getpid(), "metrics_port": metrics_port},
            f"working on {session.shown_url}{metrics}  {dim('Ctrl+C stops')}",
        )
        heartbeat_seconds = settings.visibility_seconds / HEARTBEATS_PER_TIMEOUT
        with _stopped_by_signals(worker), module.heartbeats(worker, heartbeat_seconds):
            worker.run(drain=drain)
    done = dict(sorted(worker.counts.items()))
    session.answer(done, ", ".join(f"{count} {name}" for name, count in done.items()) or "no message was delivered")


@click.group("dead-letters", cls=CommandGroup, epilog="Example: stratalog dead-letters list")
@of_every_command
def dead_letters() -> None:
    """List and redrive dead letters of documents: mutations and queued messages that failed for good."""


@command("list", example="stratalog dead-letters list")
@click.option("--after", metavar="LETTER", default="", help="Only letters after this letter.")
def list_(session: Session, after: str) -> None:
    """List dead letters in the order of their ids, with the reasons."""
    listed = _module("stratalog.worker.dead_letters").list_letters(session.open(), after=after)
    rows = ((letter, _row(letter)) for letter in listed)
    head = ["letter", "document", "mutation", "since", "redriven", "reason"]
    session.answer_list(rows, "no dead letters of documents", head=[head])


@command("redrive", example="stratalog dead-letters redrive 0000000000000007 --application myapp:app")
@click.argument("letters", metavar="[LETTER]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Redrive all dead letters, in the order of their ids.")
@click.option(
    "--args", metavar="JSON", help="New arguments for the letter's mutation. Writes and redrives a new letter."
)
@click.option("--application", metavar="NAME", help="The application with the mutators: a short name, or MODULE:NAME.")
def redrive(session: Session, letters: tuple[str, ...], every: bool, args: str | None, application: str | None) -> None:
    """Run the mutations of dead letters once more. Mutations applied meanwhile are not applied again."""
    if bool(letters) == every:
        raise click.UsageError("name the letters to redrive, or give --all")
    if args is not None and len(letters) != 1:
        raise click.UsageError("--args needs exactly one letter")
    module = _module("stratalog.worker.dead_letters")
    store, _ = open_for(session, application, create=True)
    if args is not None:
        letters = (module.edit_letter(store, letters[0], from_json(args)),)
    letter, failed = "", False
    for letter, result in module.redrive_all(store) if every else module.redrive_each(store, letters):
        if isinstance(result, StratalogError):
            failed = True
            line = f"{letter}  {click.style(str(result), fg='red')}"
            session.answer({"letter": letter, "error": str(result)}, line)
        else:
            for outcome in result:
                line = f"{letter}  {outcome.client}  {outcome.id}  {outcome.status}  {outcome.reason or ''}".rstrip()
                session.answer({"letter": letter, "outcome": outcome}, line)
    if not letter and not session.json:
        note("no dead letters of documents")
    if failed:
        raise Failed(FAILED)


def _module(name: str) -> Any:
    with needs_extra("server", "the queue"):
        return import_module(name)


def _serve_metrics(store: Store, port: int) -> int:
    """Start a thread that serves metrics on this machine until the program ends, and return the port.

    Raises ClickException if the port is not free, and MissingExtra.
    """
    start: Any = _module("prometheus_client").start_http_server
    try:
        server, _ = start(port, "127.0.0.1", _module("stratalog.server.metrics").core_counters(store.environment))
    except OSError as exc:
        raise click.ClickException(f"cannot serve metrics at port {port}: {exc.strerror}") from exc
    bound: int = server.server_port
    return bound


@contextmanager
def _stopped_by_signals(worker: Any) -> Iterator[None]:
    """On SIGTERM or SIGINT stop the worker after its current step. Restores the signal handlers at the end."""

    def stop(number: int, frame: FrameType | None) -> None:
        worker.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_failure(message: Any, reason: str) -> None:
    note(f"{message.group}: message {message.id}, received {message.receives} times: {reason}")


def _row(letter: Any) -> Sequence[str]:
    name = f"{letter.organisation}/{letter.document}" if letter.document else "?"
    mutation = f"{letter.client} {letter.mutation}{', edited' * letter.edited}" if letter.mutation else "all"
    redriven = local_time(letter.redriven_ms) if letter.redriven_ms else "no"
    return [letter.id, name, mutation, local_time(letter.dead_ms), redriven, letter.reason]


dead_letters.add_command(list_)
dead_letters.add_command(redrive)
COMMANDS = [work, dead_letters]
