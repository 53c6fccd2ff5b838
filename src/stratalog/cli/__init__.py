"""The command line: `stratalog COMMAND …`. See `docs/guides/command-line.md`.

A distribution adds a command by an entry point of the group `stratalog.commands`, as `examples/guestbook` does. This
module's public names are for the authors of such commands.

Modules
-------
program       the group of commands, its errors and exit codes
plugins       commands of other distributions
session       options of every command, and the store
naming        names, versions, times and arguments as people type them
files         files of the user that commands read and write
output        tables, times, colours, JSON, progress
stores        make a store, list its content
documents     make, change, show and delete a document
history       versions, the changes of one key, differences
copies        fork, replay, merge, copy a store
backups       backups, and restoring them
exchange      export and import
maintenance   snapshots, archives, retention, collection
usage         the amounts that an organisation stores
verification  verify, checkpoints
inspection    the inspection of each history by verify
redaction     erasure of a version's content
records       named values with versions
serve         serve a store over HTTP
queue         the worker, and dead letters
new           the template of an application
cost          the cost of work on AWS
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
from stratalog.cli.files import output_file, standard_output
from stratalog.cli.naming import FiniteRange, milliseconds, parse_arguments, split_name, version_of
from stratalog.cli.output import confirm, dim, local_time, note, print_json, print_table, progress, short, size_text
from stratalog.cli.program import FAILED, Failed, Program, fail_for_damage
from stratalog.cli.serve import load_application, of_every_server, serve_application
from stratalog.cli.session import CommandGroup, Session, command, of_every_command

__all__ = [
    "FAILED",
    "CommandGroup",
    "Failed",
    "FiniteRange",
    "Session",
    "command",
    "confirm",
    "dim",
    "fail_for_damage",
    "load_application",
    "local_time",
    "main",
    "milliseconds",
    "note",
    "of_every_command",
    "of_every_server",
    "output_file",
    "parse_arguments",
    "print_json",
    "print_table",
    "progress",
    "serve_application",
    "short",
    "size_text",
    "split_name",
    "standard_output",
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
