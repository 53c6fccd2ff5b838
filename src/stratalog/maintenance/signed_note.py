"""Signed notes: texts with Ed25519 signatures, as https://c2sp.org/signed-note defines them.

A verifier key has the text form of that page. A signing key has the text form of Go's package
``golang.org/x/mod/sumdb/note``. Signing, verifying and reading a signing key need the package ``cryptography`` (extra
``checkpoint``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog.clock import Clock
from stratalog.errors import Invalid
from stratalog.extras import needs_extra

__all__ = [
    "SigningKey",
    "VerifierKey",
    "new_signing_key",
    "open_note",
    "read_signing_key",
    "read_verifier_key",
    "sign_note",
]

ED25519 = b"\x01"
KEY_BYTES = 32
KEY_HASH_BYTES = 4
DASH = "\N{EM DASH}"
PRIVATE = "PRIVATE+KEY+"
NOTE_BYTES_MAX = 1_000_000


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key and the key's name, which is part of its signatures."""

    name: str
    public: bytes

    @property
    def hash(self) -> bytes:
        """The key's hash of 4 bytes. The hash in a signature line identifies the key that signed."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:KEY_HASH_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.hash.hex()}+{_base64(ED25519 + self.public)}"


class SigningKey(msgspec.Struct, frozen=True):
    """A private key of 32 bytes and the key's name. Any process that has the key can sign."""

    name: str
    seed: bytes

    @property
    def verifier(self) -> VerifierKey:
        """The public key. Raises MissingExtra if ``cryptography`` is not installed."""
        public = _ed25519().Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return VerifierKey(self.name, public.public_bytes_raw())

    def encoded(self) -> str:
        """Return the text form of the private key, which must be kept secret."""
        return f"{PRIVATE}{self.name}+{self.verifier.hash.hex()}+{_base64(ED25519 + self.seed)}"


def new_signing_key(clock: Clock, name: str) -> SigningKey:
    """Return a new random key. Raises Invalid for an empty name, and for a name with a space or plus sign."""
    return SigningKey(_checked_name(name), clock.random_bytes(KEY_BYTES))


def read_signing_key(text: str) -> SigningKey:
    """Parse the text that `SigningKey.encoded` returned. Raises Invalid, and MissingExtra without ``cryptography``."""
    stripped = text.strip()
    if not stripped.startswith(PRIVATE):
        raise Invalid("the text is not a signing key")
    name, hash, key = _key_parts(stripped.removeprefix(PRIVATE))
    signing = SigningKey(name, key)
    if signing.verifier.hash != hash:
        raise Invalid("a signing key is damaged", name=name)
    return signing


def read_verifier_key(text: str) -> VerifierKey:
    """Parse the text form of a public key. Raises Invalid."""
    if text.lstrip().startswith(PRIVATE):
        raise Invalid("the text is a signing key; give its verifier key, which `stratalog checkpoint-key` printed")
    name, hash, key = _key_parts(text.strip())
    verifier = VerifierKey(name, key)
    if verifier.hash != hash:
        raise Invalid("a verifier key is damaged", name=name)
    return verifier


def sign_note(text: str, key: SigningKey) -> str:
    """Return a note of ``text`` signed by ``key``. ``text`` must end with a line break."""
    assert text.endswith("\n")
    signature = _ed25519().Ed25519PrivateKey.from_private_bytes(key.seed).sign(text.encode())
    return f"{text}\n{DASH} {key.name} {_base64(key.verifier.hash + signature)}\n"


def open_note(note: str, key: VerifierKey | None) -> str:
    """Return the text of a note. If ``key`` is given, require its signature; else no signature is verified.

    Raises Invalid for a text that is not a signed note, for a note without a signature by ``key``, and for a note with
    an invalid signature that names ``key``.
    """
    text, _, signatures = note.rpartition("\n\n")
    lines = signatures.splitlines()
    if len(note) > NOTE_BYTES_MAX or not text or not all(line.startswith(f"{DASH} ") for line in lines) or not lines:
        raise Invalid("the text is not a signed note")
    text += "\n"
    if key is not None and not _is_signed(text, lines, key):
        raise Invalid("the note is not signed by the key", key=str(key))
    return text


def _is_signed(text: str, lines: Sequence[str], key: VerifierKey) -> bool:
    """Return whether a line is a signature by ``key``. Raises Invalid if a line names the key but is not valid."""
    is_signed = False
    for line in lines:
        name, _, encoded = line.removeprefix(f"{DASH} ").partition(" ")
        signature = _decoded(encoded)
        if name == key.name and signature[:KEY_HASH_BYTES] == key.hash:
            _check_signature(text, signature[KEY_HASH_BYTES:], key)
            is_signed = True
    return is_signed


def _check_signature(text: str, signature: bytes, key: VerifierKey) -> None:
    public = _ed25519().Ed25519PublicKey.from_public_bytes(key.public)
    from cryptography.exceptions import InvalidSignature  # after `_ed25519`, which names the missing extra

    try:
        public.verify(signature, text.encode())
    except InvalidSignature as exc:
        raise Invalid("a signature of the note is not valid", key=str(key)) from exc


def _key_parts(text: str) -> tuple[str, bytes, bytes]:
    """Split a key's text form into name, hash and key bytes. Raises Invalid."""
    # Split at the first two plus signs only: Base64 may contain plus signs, too.
    name, _, rest = text.partition("+")
    hash, _, encoded = rest.partition("+")
    key = _decoded(encoded)
    try:
        key_hash = bytes.fromhex(hash)
    except ValueError as exc:
        raise Invalid("the text is not a key") from exc
    if len(key) != 1 + KEY_BYTES or key[:1] != ED25519:
        raise Invalid("the key is not an Ed25519 key", name=name)
    return _checked_name(name), key_hash, key[1:]


def _checked_name(name: str) -> str:
    if not name or "+" in name or any(character.isspace() for character in name):
        raise Invalid("a key's name must have at least one character, no space and no plus sign", value=name)
    return name


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise Invalid("a key or signature is not Base64") from exc


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _ed25519() -> Any:
    """Import ``cryptography`` on first use, because a store works without it. Raises MissingExtra."""
    with needs_extra("checkpoint", "a checkpoint"):
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return ed25519
