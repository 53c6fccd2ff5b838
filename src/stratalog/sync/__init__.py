"""The server's handling of pushes and pulls, in plain functions without HTTP, for the server, the worker and Lambda.

Modules
-------
push        the mutations of a group's clients, applied in order
pull        all changes since a cookie, read from one version
replicache  push and pull in the Replicache protocol
"""
