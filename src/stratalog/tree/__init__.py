"""A content-addressed, ordered map from keys to small values, cut into chunk blobs. Equal rows have an equal root.

Modules
-------
nodes   shapes and bytes of chunks, and the rule for the end of a chunk
chunks  chunk reads and writes, with a cache
prefetch  chunks that several lookups will read, loaded together
lookup  reads of one key, or a range
update  a changed tree, or a tree from sorted rows
diff    the keys that differ between two trees
reach   the addresses of all chunks of a tree, and a check of each chunk

The caller defines the meaning of the values, and stores the root.
"""
