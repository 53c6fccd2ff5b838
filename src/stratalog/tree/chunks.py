"""Chunk reads and writes: the blobs of the chunks, and a cache of the decoded nodes."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from stratalog.cache import ByteCache
from stratalog.codec import sha256
from stratalog.errors import Corrupt, StratalogError
from stratalog.limits import CHUNK_CACHE_BYTES_MAX
from stratalog.ports.blob_source import BlobSource
from stratalog.ports.blobs import Blobs
from stratalog.ports.commit_blobs import put_together
from stratalog.ports.read_back import BlobDamage, read_blob_back
from stratalog.process_fork import close_in_child
from stratalog.tree.nodes import Chunk, Inner, Node, Root, decode_node

__all__ = ["Chunks"]

# The memory of a row of a decoded node in addition to its bytes: object headers in CPython.
ROW_OVERHEAD_BYTES = 128


class Chunks:
    """The chunks of one owner. Safe to call from many threads.

    ``reads``, ``writes`` and ``bytes_written`` count the use of the blobs since this object was made. ``cache`` is the
    store's cache, which the handles of all its documents share. With None, this object makes its own cache. ``source``
    is the source of loaded chunks, by default ``blobs``. `read`, `read_back` and writes always use ``blobs``.

    Reads raise NotFound for a missing chunk (the collector deletes chunks once their root is dropped), Corrupt,
    Unsupported and the errors of the blobs.
    """

    def __init__(
        self, blobs: Blobs, owner: str, cache: ByteCache[Node] | None = None, source: BlobSource | None = None
    ) -> None:
        self.reads: int = 0
        self.writes: int = 0
        self.bytes_written: int = 0
        self._blobs = blobs
        self._source = source or BlobSource(blobs)
        self._owner = owner
        self._prefix = f"{owner}/chunks/"
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._cache = ByteCache[Node](CHUNK_CACHE_BYTES_MAX) if cache is None else cache

    def top(self, root: Root) -> Node:
        """Return the topmost node of a tree. Raises Corrupt."""
        if root.inline is None:
            return self.load(root.address)
        cached = self._cache.get((self._owner, root.address))
        if cached is not None:
            return cached
        if sha256(root.inline) != root.address:
            raise Corrupt("an inline chunk does not have the root's address", address=root.address.hex())
        node = decode_node(root.inline)
        self._remember(root.address, node, len(root.inline))
        return node

    def child(self, node: Inner, position: int) -> Node:
        """Return the child in row ``position``. Raises Corrupt unless the child is one level below ``node``.

        So every descent through a tree ends.
        """
        child = self.load(node.addresses[position])
        if child.level != node.level - 1:
            raise Corrupt("a chunk is not one level below its parent", level=child.level, parent=node.level)
        return child

    def load(self, address: bytes) -> Node:
        """Return the node of the chunk at ``address``."""
        cached = self._cache.get((self._owner, address))
        if cached is not None:
            return cached
        body = self._get(self._source.blobs, address)
        node = decode_node(body)
        self._remember(address, node, len(body))
        return node

    @property
    def loads_together(self) -> bool:
        """Whether `load_together` loads several chunks at the same time."""
        return self._source.gets_max > 1

    def load_together(self, addresses: Collection[bytes]) -> dict[bytes, Node]:
        """Load chunks into the cache, several at the same time, and return their nodes.

        Raises nothing for a chunk that cannot be loaded: the next `load` of the chunk raises the error. After an error
        the method loads no further chunk and returns no node, since an unavailable store answers slowly.
        """
        nodes: dict[bytes, Node] = {}
        failures: list[StratalogError] = []

        def load(address: bytes) -> None:
            if failures or address in nodes:
                return
            try:
                nodes[address] = self.load(address)
            except StratalogError as exc:
                failures.append(exc)

        distant = [address for address in addresses if not self._is_near(address)]
        if len(distant) > 1:
            # If the system has no thread left, this thread loads the chunks one by one.
            with suppress(RuntimeError), ThreadPoolExecutor(self._source.gets_max, "stratalog-chunks") as pool:
                pool.map(load, distant)
        for address in addresses:
            load(address)
        return {} if failures else nodes

    def _is_near(self, address: bytes) -> bool:
        return self._cache.get((self._owner, address)) is not None or self._source.is_near(self.key(address))

    def read(self, address: bytes) -> bytes:
        """Return the bytes of the chunk at ``address``, from the blobs, not the cache."""
        return self._get(self._blobs, address)

    def read_back(self, address: bytes) -> bytes | BlobDamage:
        """Read like `read`, but return the damage of the chunk's blob instead of raising an error."""
        with self._lock:
            self.reads += 1
        return read_blob_back(self._blobs, self.key(address))

    def _get(self, blobs: Blobs, address: bytes) -> bytes:
        with self._lock:
            self.reads += 1
        return blobs.get(self.key(address))

    def key(self, address: bytes) -> str:
        """Return the key of the blob of the chunk at ``address``."""
        return self._prefix + address.hex()

    def write(self, chunk: Chunk) -> None:
        """Store the chunk, durably on return. A chunk that is already stored is put again, to restart its age."""
        self.write_all([chunk])

    def write_all(self, chunks: Collection[Chunk]) -> None:
        """Store chunks, durably on return. Puts of many chunks run in parallel; see `put_together`."""
        put_together(self._blobs, self.bodies(chunks))
        self.note_written(chunks)

    def bodies(self, chunks: Collection[Chunk]) -> dict[str, bytes]:
        """Return the blobs of ``chunks``, for a caller that stores the blobs itself and then calls `note_written`."""
        return {self.key(chunk.address): chunk.body for chunk in chunks}

    def note_written(self, chunks: Collection[Chunk]) -> None:
        """Count ``chunks`` as written, and cache their nodes."""
        with self._lock:
            self.writes += len(chunks)
            self.bytes_written += sum(len(chunk.body) for chunk in chunks)
        for chunk in chunks:
            self._remember(chunk.address, chunk.node, len(chunk.body))

    def _remember(self, address: bytes, node: Node, body_bytes: int) -> None:
        """Cache a node under its owner and address, so that no owner sees the content of another owner."""
        self._cache.put((self._owner, address), node, body_bytes + ROW_OVERHEAD_BYTES * len(node.keys))
