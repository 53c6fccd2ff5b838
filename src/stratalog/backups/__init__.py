"""Backups: a whole store in a folder or a bucket, made while it is written to, read as a store, and restored.

Modules
-------
backup         makes one
family         reads a family of logs for it
records        reads an organisation's records for it
writer         writes the rows of a backup, and copies blobs
format         manifests, rows and packs
repository     the folder or bucket with its backups
view           a backup read as a store
cut            a backup as of a version or a time
verification   reads a backup back
prune          removes old backups
restore        a backup into an empty store
restored_log   one log of a backup beside others
"""
