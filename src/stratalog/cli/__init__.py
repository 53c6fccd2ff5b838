"""The command line: `stratalog COMMAND …`. Only here is the environment read. `docs/guides/command-line.md` tells all.

General layout
--------------
program     the group of commands, its errors and exit codes      session    the options every command has; the store
naming      names, versions, times and arguments as typed         output     tables, times, colours, JSON, progress
stores · documents · history · copies · upkeep · exchange · records · serve · queue · new · cost · sheet · table ·
catalogue: a noun each
"""

from stratalog.cli import (
    catalogue,
    copies,
    cost,
    documents,
    exchange,
    history,
    new,
    queue,
    records,
    serve,
    sheet,
    stores,
    table,
    upkeep,
)
from stratalog.cli.program import Program

__all__ = ["main"]

main = Program()
for module in (
    stores,
    documents,
    history,
    copies,
    upkeep,
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
