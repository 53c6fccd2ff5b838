"""Work on whole stores and documents, by those who run them.

collect     deletes blobs that nothing refers to     marking     what they refer to     progress    how far it came
maintain    one pass over a store: snapshots, archives, retention, sweeping, collecting
copying     a whole store into another place     mirroring    items and blobs made the same     copy_check    the proof
exchange    a document as a file            importing   and a file as a document, with all its versions
cost        what a meter counted, in dollars     cost_work    each operation, done and counted
prices      what the services charge: dated data
replayed_clock    entries written anew keep their time
"""
