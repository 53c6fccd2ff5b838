"""The three contracts everything stands on: an ordered conditional index, immutable blobs, and a FIFO queue.

Contracts and the shapes they speak in, nothing else: no technology, no policy. Each has at most six methods.
"""
