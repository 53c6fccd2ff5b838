"""Maintenance of whole stores: snapshots, retention, collection, verification, repair, copies, export and import.

Modules
-------
store_pass       one maintenance pass over a store
log_pass         the maintenance of one log within a pass
policy           retention and intervals of a pass
collection       deletion of unreferenced blobs
marks            the blobs that a family of logs refers to
progress         the saved progress of a collection
usage            measurement of an organisation's documents, records, clients and stored bytes
store_copy       the copy of a whole store into another store
family_copy      the copy of the logs that share blobs
mirror           copying of items and blobs between two stores
copied_references  the blobs that copied items refer to, and the search for lost ones
verification     recomputation of the hash chains of logs and records
scrub            reading of every blob, some of them in each pass
inspection       reading and comparison of everything that a history refers to
repair           restoration of damaged objects from intact ones
damage           the report of one damaged object, and the kinds of objects
shapes           the attributes that each kind of item has
checked_items    reads that continue after a damaged item
recording_ports  read-only ports that record damage
log_check        the check of one log: its entries and its other items
document_check   the check of a document's values, state and snapshots
record_check     the check of a record
store_check      the check of items outside logs and records
checkpoint       a history's version and hash outside the store, and the proof that the store kept this history
signed_note      notes signed with Ed25519
copy_check       the verification of a copy against its source
copy_position    the position of an unfinished copy, saved in the target
document_export  a document as a file of JSON lines
document_import  a document from an export file
replayed_clock   a clock that repeats the time of an old entry
"""
