"""What Stratalog costs, measured beside the plainest thing that could do the same: ``python -m bench``.

General layout
--------------
figures     the checked-in list: every figure's name, unit and goal, and what a report must hold
measure     rounds that alternate between the sides, medians, timing
payload     the events, keys and values that every side stores
plain       the same work on plain `sqlite3`                peer        … and on the package `eventsourcing`
workplace   folders, sizes, and the large stores that several figures share
appends     writing          reads      loading and looking back        large     a state of a million keys
report      the table, the JSON, the machine             cloud     the client of DynamoDB beside boto3
progress    snapshots, polls and clients that are many

``bench.costs`` measures no time but what work costs on AWS: ``cost_tables`` counts, ``cost_log`` works on a log,
``schemas`` keeps the same documents as the seeds would, ``cost_plots`` draws.

``bench.tree``, ``bench.backends`` and ``bench.contention`` stand alone: they look closer at one layer.
"""
