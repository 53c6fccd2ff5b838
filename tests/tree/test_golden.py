"""The format is fixed: a stored tree stays readable and keeps its root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stratalog.codec import sha256
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import EMPTY, Chunk, Root, Slot, chunk_of, decode_node, key_level
from stratalog.tree.reach import addresses, verify
from stratalog.tree.update import build
from tests.tree.helpers import new_chunks

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/tree-v1.json").read_text())


def content() -> list[tuple[str, Slot]]:
    return [(row["key"], Slot(bytes.fromhex(row["value"]), row["version"])) for row in GOLDEN["slots"]]


def golden_root() -> Root:
    root = GOLDEN["root"]
    return Root(bytes.fromhex(root["address"]), bytes.fromhex(root["digest"]), root["count"], None)


def golden_chunks() -> list[Chunk]:
    return [chunk_of(decode_node(bytes.fromhex(body))) for body in GOLDEN["chunks"].values()]


def test_the_golden_content_still_has_its_root_and_chunks() -> None:
    chunks = new_chunks()
    root = build(chunks, content())
    golden = golden_root()
    assert (root.address, root.digest, root.count) == (golden.address, golden.digest, golden.count)
    assert root.inline is not None, "the topmost chunk must be inline, unlike in the golden file's release"
    stored = {each.hex(): chunks.read(each).hex() for each in addresses(chunks, root)}
    assert {root.address.hex(): root.inline.hex(), **stored} == GOLDEN["chunks"]


def test_the_golden_chunks_still_read() -> None:
    chunks = new_chunks()
    for chunk in golden_chunks():
        chunks.write(chunk)
    verify(chunks, golden_root())
    assert list(scan(chunks, golden_root())) == content()


def test_the_golden_keys_still_have_their_levels() -> None:
    assert {key: key_level(key) for key in GOLDEN["levels"]} == GOLDEN["levels"]
    assert {1, 2} <= set(GOLDEN["levels"].values())


def test_the_empty_tree_is_still_the_same() -> None:
    golden = GOLDEN["empty"]
    assert (EMPTY.address.hex(), EMPTY.digest.hex()) == (golden["address"], golden["digest"])
    assert EMPTY.inline == bytes.fromhex(golden["inline"])
    assert sha256(EMPTY.inline) == EMPTY.address
