"""A content-addressed, ordered map of keys to small values, cut into chunk blobs; the same content has the same root.

``nodes`` holds the shapes, the bytes and the cut rule; ``chunks`` reads and writes them; ``lookup``, ``update``,
``diff`` and ``reach`` are functions over it. What a value means, and where a root is kept, is for the caller to say.
"""
