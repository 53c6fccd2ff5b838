"""What a server does with a push and a pull. Plain functions without HTTP: the server, the worker and Lambda call them.

Modules
-------
push        applies the mutations of a group's clients, in order
pull        everything new since a cookie, read from one version
replicache  both in the terms of the Replicache protocol
"""
