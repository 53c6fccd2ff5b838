"""A content-addressed, ordered map from keys to small values, cut into chunk blobs. Equal content has an equal root.

Modules
-------
nodes   shapes and bytes of chunks, and the rule where one ends
chunks  reads and writes chunks, with a cache
lookup  one key, or a range
update  a tree with changes, or a tree from sorted rows
diff    the keys that differ between two trees
reach   every chunk that a tree refers to

The caller decides what a value means and where it keeps the root.
"""
