"""The contracts that everything else depends on. Backends implement them; nothing here names a vendor.

Modules
-------
index  an ordered table of items with conditional commits
commit_blobs  the blobs of a commit: put first, or taken along by the index
blobs  immutable bytes under their own hash
read_back  reads a blob from storage and names its damage
blob_kinds  what a blob holds, for people who look at a folder or a bucket
queue  a FIFO queue in groups
meter  counts requests and billed units
"""
