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
backup           a whole store into a folder or a bucket, while it is written to
backup_family    reads a family of logs for it
backup_records   reads an organisation's records for it
backup_writer    writes the rows of a backup, and copies blobs
backup_format    manifests, rows and packs
backup_repository  the folder or bucket with its backups
backup_view      a backup read as a store
backup_cut       a backup as of a version or a time
backup_verification  reads a backup back
backup_prune     removes old backups
restore          a backup into an empty store
restored_log     one log of a backup beside others
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
