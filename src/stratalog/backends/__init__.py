"""The ports on real technology, one file each: memory, SQLite, files; later DynamoDB, object stores, SQS.

No backend imports another, and none knows what a log or a document is.
"""
