"""Backups of a whole store to a folder or bucket, made while writers continue, readable as a store, and restorable.

Modules
-------
backup           the making of a backup
family           the reading of a family of logs for a backup
records          the reading of an organisation's records for a backup
gaps             the missing versions that attempts to read a history find
failures_of_log  the failures that concern one restored log
failures         the reading of the records' failures and dead letters for a backup
references       the search for lost blobs
writer           the rows of a new backup, and the copies of blobs
format           manifests, rows and packs
repository       the folder or bucket of backups
view             a backup as a read-only store
cut              a backup as of a version or a time
verification     the verification of a backup
prune            the removal of old backups
restore          the restoration of a backup into an empty store
restored_log     the restoration of one log into a store with other logs
"""
