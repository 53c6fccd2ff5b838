"""Verify an export without Stratalog: compute its hash chain again, and compare it with a checkpoint.

    python verify_export.py budget.jsonl --note budget.note --key example.com/ledger+1a2b3c4d+AT…

The program implements formats/export.md, documents.md, chain.md and checkpoint.md. It imports only the standard
library, and `cryptography` to verify a note's signature. The exit code is 0 if the export, and the note if one is
given, are verified; 2 for wrong arguments; otherwise 1. Without `--key` the note's signature is not verified. The
hashes depend on the metadata fields that the application's rules name: `--fields` names them, by default id and name.
"""

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
from collections import namedtuple
from pathlib import Path
from urllib.parse import unquote

INLINE_MAX, METADATA_MAX, PART = 1024, 1024, 8_388_608
FIELDS = ["id", "name"]  # the fields of a large value that its reference contains; `--fields` replaces them
Extension = namedtuple("Extension", "code data")  # code 1: a reference to a blob; 2: a position in the patch


def sha256(data):
    return hashlib.sha256(data).digest()


def head(length, code, wide, short=0):
    """Return the head of ``length`` items or bytes: one byte below ``short``, otherwise the shortest form."""
    if length < short:
        return bytes([code + length])
    size = next(size for size in (1, 2, 4) if length < 1 << 8 * size and size in wide)
    return bytes([wide[size]]) + length.to_bytes(size, "big")


def pack(value):
    """Return canonical MessagePack, with the shortest forms and with sorted keys of maps."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return pack_integer(value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        data = value.encode()
        return head(len(data), 0xA0, {1: 0xD9, 2: 0xDA, 4: 0xDB}, 32) + data
    if isinstance(value, bytes):
        return head(len(value), 0, {1: 0xC4, 2: 0xC5, 4: 0xC6}) + value
    if isinstance(value, Extension):
        return pack_extension(value)
    if isinstance(value, dict):
        items = (pack(name) + pack(value[name]) for name in sorted(value))
        return head(len(value), 0x80, {2: 0xDE, 4: 0xDF}, 16) + b"".join(items)
    return head(len(value), 0x90, {2: 0xDC, 4: 0xDD}, 16) + b"".join(map(pack, value))


def pack_integer(value):
    if -32 <= value <= 127:
        return struct.pack(">b", value)
    bits = value.bit_length() if value >= 0 else (~value).bit_length() + 1
    position = next(position for position in range(4) if bits <= 8 << position)
    return bytes([(0xCC if value >= 0 else 0xD0) + position]) + value.to_bytes(1 << position, "big", signed=value < 0)


def pack_extension(value):
    size, fixed = len(value.data), {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
    start = bytes([fixed[size]]) if size in fixed else head(size, 0, {1: 0xC7, 2: 0xC8, 4: 0xC9})
    return start + bytes([value.code]) + value.data


def value_of(plain):
    """Decode a value of an export's JSON: `$bytes` and escaped names."""
    if isinstance(plain, list):
        return [value_of(item) for item in plain]
    if isinstance(plain, dict) and len(plain) == 1:
        [(name, item)] = plain.items()
        if name == "$bytes":
            return base64.b64decode(item, validate=True)
        return {name[1:] if name.startswith("$") else name: value_of(item)}
    return {name: value_of(item) for name, item in plain.items()} if isinstance(plain, dict) else plain


def large_value(value, folder):
    """Return a reference to the blob of a value. The reference has those of `FIELDS` that fit."""
    encoded = pack(value)
    body = [sha256(encoded), len(encoded), None]
    if len(encoded) > PART:
        parts = [sha256(encoded[start : start + PART]) for start in range(0, len(encoded), PART)]
        body = [sha256(pack(parts)), len(encoded), sha256(encoded)]
    fields = {}
    for name in FIELDS if isinstance(value, dict) else ():
        if name in value and len(pack({**fields, name: value[name]})) <= METADATA_MAX:
            fields[name] = value[name]
    return Extension(1, pack([body, folder, fields]))


def escaped(text):
    """Escape a collection's name for a blob's key."""
    unsafe = "[^A-Za-z0-9._\\-\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|^[.]"
    return re.sub(unsafe, lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def stored_change(change):
    """Return a change of the patch in the form of the entry."""
    stored = None if change.get("deleted") else pack(value_of(change["value"]))
    if stored and len(stored) > INLINE_MAX:
        collection, slash, _ = change["key"].partition("/")
        stored = pack(large_value(value_of(change["value"]), f"items/{escaped(collection)}" if slash else "fields"))
    return [change["key"], stored, change["before"], change["by"]]


def stored_mutation(mutation, large):
    """Return a mutation in the form of the entry. ``large`` maps the patch's large values to their positions."""

    def argument(value):
        encoded = pack(value)
        if len(encoded) <= INLINE_MAX:
            return value
        return Extension(2, pack(large[encoded])) if encoded in large else large_value(value, "arguments")

    args, payload = value_of(mutation["args"]), None
    encoded = pack(args)
    if len(encoded) > INLINE_MAX:
        payload = sha256(pack(mutation["name"]) + encoded)[:16]
        encoded = pack({name: argument(args[name]) for name in args} if isinstance(args, dict) else argument(args))
    who = [mutation["client"], mutation["id"], mutation["name"]]
    return [*who, encoded, mutation["reason"], payload, mutation["origin"]]


def body_of(line):
    """Return the canonical bytes of an entry's events."""
    if "event" in line:
        return pack([[line["event"][0], value_of(line["event"][1]), line["event"][2]]])
    values = [None if change.get("deleted") else pack(value_of(change["value"])) for change in line["patch"]]
    large = {value: position for position, value in enumerate(values) if value is not None and len(value) > INLINE_MAX}
    mutations = [stored_mutation(mutation, large) for mutation in line["mutations"]]
    data = [mutations, list(map(stored_change, line["patch"])), line["bindings"], line["fields_bytes"]]
    return pack([["commit", data + ([value_of(line["merged"])] if "merged" in line else []), 1]])


def next_hash(before, line):
    if "redacted" in line:
        digest = bytes.fromhex(line["redacted"])
    else:
        digest = sha256(bytes.fromhex(line["salt"]) + sha256(body_of(line)))
    facts = [line[name] for name in ("version", "created_ms", "principal", "author", "write_id")]
    return sha256(before + sha256(pack([1, *facts, digest, None])))


def verify(lines):
    """Return the origin, and the hashes of all versions, starting at version 0."""
    try:
        header, *entries, end = [json.loads(line) for line in lines]
        is_complete = (end["end"], end["sha256"]) == (len(entries), sha256(b"".join(lines[:-1])).hex())
    except (LookupError, TypeError, ValueError):  # an export may be cut at the end of a line, or inside a line
        is_complete = False
    if not is_complete:
        sys.exit("not verified: the export is cut short, or was changed")
    hashes = [sha256(b"stratalog history 1\0" + header["origin"].encode())]
    for version, line in enumerate(entries, 1):
        hashes.append(next_hash(hashes[-1], line))
        if (line["version"], line["hash"]) != (version, hashes[-1].hex()):
            sys.exit(f"not verified: version {version} does not follow from the versions before it")
    return header["origin"], hashes


def open_note(note, key):
    """Return the lines of a checkpoint's text. With a key, verify the signature."""
    text, _, signatures = note.rpartition("\n\n")
    if key:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        name, hash, encoded = key.split("+", 2)
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(encoded)[1:])
        lines = [line.split(" ") for line in signatures.splitlines()]
        signed = [base64.b64decode(line[2]) for line in lines if line[:2] == ["—", name]]
        own = [signature[4:] for signature in signed if signature[:4].hex() == hash]
        if not own:
            sys.exit("not verified: the note has no signature of the key")
        try:
            public.verify(own[0], f"{text}\n".encode())
        except InvalidSignature:
            sys.exit("not verified: the note was changed, or its signature is wrong")
    return text.splitlines()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path)
    parser.add_argument("--note", type=Path)
    parser.add_argument("--key")
    parser.add_argument("--fields", default="id,name", help="metadata fields that the application's rules name")
    options = parser.parse_args()
    FIELDS[:] = filter(None, options.fields.split(","))
    origin, hashes = verify(options.export.read_bytes().splitlines(keepends=True))
    print(f"the chain holds: version {len(hashes) - 1}, hash {hashes[-1].hex()}")
    if options.note:
        first, _, _, noted_origin, version, hash = open_note(options.note.read_text(), options.key)
        if first != "stratalog checkpoint 1" or unquote(noted_origin) != origin:
            sys.exit("not verified: the note is of another history")
        if int(version) >= len(hashes) or base64.b64encode(hashes[int(version)]).decode() != hash:
            sys.exit(f"not verified: the note is contradicted: version {version} is missing or has another hash")
        print(f"the export continues the history of the note: version {version}")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # noqa: BLE001 - a changed export or note may raise any error
        sys.exit(f"not verified: {error!r}")
