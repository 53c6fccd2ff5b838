"""The restore drill: stores are backed up while processes write to them, then restored and held against what was told.

Modules
-------
drill    rounds of writers, backups and restorations
writers  a process that writes, and notes what was acknowledged
"""
