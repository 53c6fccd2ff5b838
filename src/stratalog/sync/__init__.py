"""Functions that handle pushes and pulls, without HTTP. The server, the worker and the functions on Lambda use them.

Modules
-------
push        the mutations of a group's clients, applied in order
pull        all changes since a cookie, read from one version
replicache  push and pull in the Replicache protocol
"""
