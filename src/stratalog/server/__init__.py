"""The server's side of sync: what a push and a pull do to a document, whoever carries them.

push        mutations of a group's clients, applied in order
pull        what is new since a cookie, read from one version
replicache  both in the words of the Replicache protocol

These are plain functions without I/O of their own: HTTP, the queue's worker and a Lambda all call them.
"""
