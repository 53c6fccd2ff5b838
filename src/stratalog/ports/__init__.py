"""The contracts between Stratalog and its storage. No contract requires a certain vendor. The backends implement them.

Modules
-------
index  an ordered table of items with conditional commits
damaged_keys  sort keys that are no text, and the continuation of a query after them
stored_attributes  the attributes of a stored item as checked types
commit_blobs  storage of a commit's blobs, before the commit or by the index in the same commit
blobs  immutable bytes under their own hash
blobs_wrapper  blobs that pass on each call, for subclasses that change some calls
blob_source  the blobs that loads read, possibly behind a cache, and the number of gets at a time
blob_stats  the metadata of many blobs of one folder
scratch  blobs in a temporary file, for checks that may not write to the store
read_back  a read of a blob from storage that returns damage as a value
blob_kinds  the media type of a blob, for people who browse a folder or a bucket
announcements  hints between processes that a log has new entries
queue  a FIFO queue in groups
meter  counts of requests and billed units
"""
