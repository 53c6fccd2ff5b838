"""The command line: `stratalog COMMAND …`. Only this package reads the environment. See `docs/guides/command-line.md`.

A distribution adds a command by an entry point of the group `stratalog.commands`, as `examples/guestbook` does. The
public names here are what such a command is written with.

Modules
-------
program       the group of commands, its errors and exit codes
plugins       commands of other distributions
session       options of every command, and the store
naming        names, versions, times and arguments as people type them
output        tables, times, colours, JSON, progress
stores        make a store, list its content
documents     make, change, show and delete a document
history       versions, the changes of one key, differences
copies        fork, replay, merge, copy a store
backups       backups, and restoring them
exchange      export and import
maintenance   snapshots, archives, retention, collection
usage         what an organisation stores
verification  verify, checkpoints
inspection    what verify shows of each history
redaction     erases what a version says
records       named values with versions
serve         serve a store over HTTP
queue         the worker, and dead letters
new           write the beginning of an application
cost          what work would cost on AWS
"""

from stratalog.cli import (
    backups,
    copies,
    cost,
    documents,
    exchange,
    history,
    maintenance,
    new,
    queue,
    records,
    redaction,
    serve,
    stores,
    usage,
    verification,
)
from stratalog.cli.naming import milliseconds, parse_arguments, split_name, version_of
from stratalog.cli.output import dim, local_time, note, print_json, print_table, progress, short, size_text
from stratalog.cli.program import FAILED, Failed, Program
from stratalog.cli.serve import load_application, of_every_server, serve_application
from stratalog.cli.session import Session, command, of_every_command

__all__ = [
    "FAILED",
    "Failed",
    "Session",
    "command",
    "dim",
    "load_application",
    "local_time",
    "main",
    "milliseconds",
    "note",
    "of_every_command",
    "of_every_server",
    "parse_arguments",
    "print_json",
    "print_table",
    "progress",
    "serve_application",
    "short",
    "size_text",
    "split_name",
    "version_of",
]

main = Program()
for module in (
    stores,
    documents,
    history,
    copies,
    backups,
    maintenance,
    usage,
    verification,
    redaction,
    exchange,
    records,
    serve,
    queue,
    new,
    cost,
):
    for built_in in module.COMMANDS:
        main.add_command(built_in)
