"""Commands that move documents between stores: export and import."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from stratalog.cli.files import output_file, standard_input, standard_output
from stratalog.cli.naming import split_name, version_of
from stratalog.cli.output import print_json, print_line, progress
from stratalog.cli.session import Session, command
from stratalog.documents import Document
from stratalog.errors import NotFound
from stratalog.maintenance.document_export import export_document, export_state, import_state, is_export
from stratalog.maintenance.document_import import import_document
from stratalog.store import Store

__all__ = ["COMMANDS"]


@command("export", example="stratalog export acme/budget budget.jsonl")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("file", metavar="FILE|-", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--state", is_flag=True, help="Export only the keys and values of one version.")
@click.option("--at", metavar="VERSION|TIME", help="The version to export; needs --state.  [default: the newest]")
def export(session: Session, document: str, file: str, state: bool, at: str | None) -> None:
    """Write a document with all its versions, or one state, to a file of JSON lines."""
    if at is not None and not state:
        raise click.UsageError("--at needs --state: without it an export has every version")
    opened = session.document(document)
    with _writing(file) as out, progress("exporting", None if state else opened.version) as step:
        at_version = version_of(opened, at)
        done = export_state(opened, out, at_version) if state else export_document(opened, out, step)
    to_error = file == "-"
    if session.json and not to_error:
        print_json({"name": document, "version": done.version, "lines": done.lines, "digest": done.digest})
    else:
        print_line(f"exported {document} at version {done.version}: {done.lines} lines", to_error=to_error)


@command("import", example="stratalog import acme/budget-again budget.jsonl")
@click.argument("document", metavar="ORGANISATION/DOCUMENT")
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def import_(session: Session, document: str, file: str) -> None:
    """Create a document from an export, or put {"key", "value"} lines into a new or existing document."""
    store = session.open()
    with _reading(file) as source, progress("importing", None) as step:
        if is_export(source):
            made = import_document(store, *split_name(document), source, step)
        else:
            made = _document_for_state(store, document)
            import_state(made, source, step)
    version, digest = made.version, made.at().content_digest()
    plain = {"name": document, "version": version, "digest": digest}
    session.answer(plain, f"imported {document}: version {version}, digest {digest[:12]}")


def _document_for_state(store: Store, name: str) -> Document:
    try:
        return store.document(*split_name(name))
    except NotFound:
        return store.create(*split_name(name))


@contextmanager
def _writing(file: str) -> Iterator[BinaryIO]:
    """Yield standard output for ``-``, and for any other ``file`` its `output_file`."""
    if file == "-":
        yield standard_output()
        return
    with output_file(file) as out:
        yield out


@contextmanager
def _reading(file: str) -> Iterator[BinaryIO]:
    """Yield a seekable file. Standard input is first copied to a temporary file."""
    if file != "-":
        with Path(file).open("rb") as source:
            yield source
        return
    with tempfile.TemporaryFile() as buffer:
        shutil.copyfileobj(standard_input(), buffer)
        yield buffer


COMMANDS = [export, import_]
