"""The tampering campaign alters the index and the blobs of stores directly.

Verification must find each alteration. If the tamperer recomputed the hashes or removed the newest versions, a
checkpoint must find it.

Modules
-------
stores       random stores with documents, forks, logs, records, floors, archives and redacted versions
rows         the versions of one history, read and written in the index and in archives
alterations  the functions that alter versions and blobs
rehash       the hashes that a careful tamperer recomputes, with code that shares nothing with the store's code
"""
