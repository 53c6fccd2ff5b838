"""The tampering campaign: alterations are planted past the store, in its index and blobs, and each must be found.

Modules
-------
stores       stores with a past: documents, forks, logs, records, floors, archives, redacted versions, exports
rows         the versions of one history as items, wherever they lie
alterations  what a tamperer does to them
rehash       the hashes that a careful tamperer computes anew, by code that shares nothing with the store's
"""
