"""Maintenance of whole stores: snapshots, retention, collection, copies, export and import.

Modules
-------
store_pass       one pass over a store: everything that is due
log_pass         the same for one log
policy           what a pass keeps, and what it may remove
collection       deletes blobs that nothing refers to
marks            the blobs that a family of logs refers to
progress         how far a collection came, kept in the index
usage            measures what an organisation stores
store_copy       a whole store into another place
mirror           equal items and blobs in two stores
verification     computes the chains of logs and records anew
scrub            reads some blobs in each pass
inspection       reads everything that a history refers to, and compares
repair           makes again what follows from what is intact
damage           what is wrong with one stored object; the kinds and shapes of items
recording_ports  ports that are only read, and note what is damaged
log_check        the check of one log and of the items around it
document_check   the check of a document's values, state and snapshots
record_check     the check of a record
store_check      the check of what belongs to no log or record
checkpoint       a history noted outside the store, and the proof that it goes on from there
signed_note      notes signed with Ed25519
copy_check       verifies a copy against its source
document_export  a document as a file of JSON lines
document_import  a document from such a file
replayed_clock   a clock that repeats the time of an old entry
"""
