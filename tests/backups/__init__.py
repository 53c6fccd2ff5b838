"""Backups, and the restore drill: stores are backed up during writes, restored, and compared with the acknowledgements.

Modules
-------
drill    rounds of writers, backups and restores
stores   a backup repository in memory, and its backups opened as stores
writers  a process that writes, and notes each acknowledgement
"""
