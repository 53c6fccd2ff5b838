"""Maintenance of whole stores: snapshots, retention, collection, copies, export and import.

Modules
-------
store_pass       one pass over a store: everything that is due
log_pass         the same for one log
policy           what a pass keeps, and what it may remove
collection       deletes blobs that nothing refers to
marks            the blobs that a family of logs refers to
progress         how far a collection came, kept in the index
store_copy       a whole store into another place
mirror           equal items and blobs in two stores
verification     computes the chains of logs and records anew
checkpoint       a history noted outside the store, and the proof that it goes on from there
signed_note      notes signed with Ed25519
copy_check       verifies a copy against its source
document_export  a document as a file of JSON lines
document_import  a document from such a file
replayed_clock   a clock that repeats the time of an old entry
"""
