"""Benchmarks of Stratalog, most of them compared with the simplest alternative: ``python -m bench``.

Machinery
---------
figures       the list of figures with their units and goals, and the check that a report is complete
media         the disk at hand and memory, each quick or slow
program       the command line: measure, print, write
measure       alternating rounds, medians, timing
payload       the events, keys and values that every side stores
plain, peer   the other sides: plain `sqlite3`, and the package `eventsourcing`
workplace     folders, sizes, and large stores that several figures share
report        the table, and the description of the machine

Figures
-------
appends       writes
postgres      writes to PostgreSQL, beside plain inserts by psycopg
reads         reads of entries, and of current and old states
large         a document of a million keys
progress      commits during snapshots, polls of a long queue, many clients
server        pushes, delays and idle connections; ``serving`` has the served applications
sharing       processes that share a folder
turns         writers at a hosted index, simulated
cloud         the client of DynamoDB, compared with boto3
cold          processes that begin: a function on AWS Lambda, and a push to a large document
sheet_engine  the spreadsheet's engine

``bench.matrix`` is a second program with these figures:

tails         the median, the 99th percentile and the maximum of commits
growth        mutations of documents of 1,000 to 10,000,000 keys
long_logs     logs of 10,000 to 10,000,000 entries

``bench.costs`` prints the costs of work on AWS and measures no time. ``cost_tables`` counts the billed units, and
``cost_log`` counts the units of a log. ``schemas`` stores the same documents by other published schemas. ``cost_plots``
draws the curves.

These programs run alone: ``tree``, ``backends``, ``contention`` and ``turns_emulator`` measure one layer; ``table``,
``sheet``, ``sheet_browser`` and ``catalogue`` measure an application. ``table_sides``, ``table_postgres``,
``table_hosted`` and ``table_rows`` are parts of ``table``. ``table_plots`` and ``sheet_plot`` draw curves. ``peers``
compares Stratalog with other libraries at the same work; ``peer_events`` and ``peer_trees`` have the sides.
"""
