"""The command line: `stratalog COMMAND …`. Only this package reads the environment. See `docs/guides/command-line.md`.

Modules
-------
program          the group of commands, its errors and exit codes
session          options of every command, and the store
naming           names, versions, times and arguments as people type them
output           tables, times, colours, JSON, progress
stores           make a store, list its content
documents        make, change, show and delete a document
history          versions, the changes of one key, differences
copies           fork, replay, merge, copy a store
exchange         export and import
maintenance      snapshots, archives, retention, verification, collection
records          named values with versions
serve            serve a store over HTTP
queue            the worker, and dead letters
new              write the beginning of an application
cost             what work would cost on AWS
sheet            spreadsheets
sheet_serve      serve spreadsheets
table            tables of Parquet files
catalogue        catalogues of records
catalogue_serve  serve a catalogue
"""

from stratalog.cli import (
    catalogue,
    copies,
    cost,
    documents,
    exchange,
    history,
    maintenance,
    new,
    queue,
    records,
    serve,
    sheet,
    stores,
    table,
)
from stratalog.cli.program import Program

__all__ = ["main"]

main = Program()
for module in (
    stores,
    documents,
    history,
    copies,
    maintenance,
    exchange,
    records,
    serve,
    queue,
    new,
    cost,
    sheet,
    table,
    catalogue,
):
    for command in module.COMMANDS:
        main.add_command(command)
