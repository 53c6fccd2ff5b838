"""Tests of backups, and the restore drill, which backs up a store during writes and checks the restored store.

Modules
-------
drill    rounds of writers, backups and restores
stores   a backup repository in memory, and its backups opened as stores
writers  a process that writes, and notes each acknowledgement
"""
