"""``python -m tests.hostile`` makes many kinds of attacks on one server, which must still serve honest callers.

If the machine has two or more cores, the server runs on one core, and all callers run on one other core. The first run
has no attacks, for comparison.

Modules
-------
__main__     the command: both runs, and a table of the measurements
application  the served application: tokens, rules and, unless switched off, sheets
server       the server's process, its core, and measurements of its memory, its open files and sockets, and its log
http_calls   HTTP calls that need little CPU of the caller, and raw sockets
honest       honest callers: requests at a steady rate, live connections, and a check of all writes at the end
attacks      one function for each kind of attack
endurance    a command: a long run, with limits for the growth of memory, descriptors and response times
checks       the measurements, and the limits for them
"""
