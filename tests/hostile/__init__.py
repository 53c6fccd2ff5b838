"""Hostile callers of all kinds at once, beside honest ones who must not notice: ``python -m tests.hostile``.

The server has one core to itself and the callers another. An undisturbed run comes first, for comparison.

Modules
-------
__main__     the command: both runs, and a table of what was measured
application  what is served: tokens, rules and, where the engine is installed, sheets
server       the server's process: its core, memory and log
http_calls   HTTP calls that cost little, and raw ones
honest       honest callers: requests at a steady rate, live connections, and writes that are read back
attacks      one function for each kind of attack
endurance    a command: many requests under many live connections, after which nothing has grown
checks       what is measured, and what may not be exceeded
"""
