"""The shared model: what every source's records become. `formats/catalogue.md` describes it for readers."""

from __future__ import annotations

import msgspec

__all__ = ["MODEL_VERSION", "Agent", "Dated", "Identifier", "Relation", "Work", "decode_work", "encode_work"]

MODEL_VERSION = 1


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody who made a work, and as what."""

    name: str
    role: str = ""


class Dated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A date as the source writes it, and what happened then."""

    value: str
    kind: str = ""


class Identifier(msgspec.Struct, frozen=True):
    """What a work is called in some scheme."""

    scheme: str
    value: str


class Relation(msgspec.Struct, frozen=True):
    """Another work, named as the source names it, and how this one stands to it."""

    kind: str
    target: str


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="model", tag=MODEL_VERSION):
    """One work. It says nothing of when or how often it was made: the same record always gives the same bytes."""

    id: str
    """The source's own id; with ``source`` it is unique."""

    source: str
    kind: str
    title: str
    creators: tuple[Agent, ...] = ()
    dates: tuple[Dated, ...] = ()
    identifiers: tuple[Identifier, ...] = ()
    relations: tuple[Relation, ...] = ()
    subjects: tuple[str, ...] = ()
    language: str = ""
    description: str = ""
    url: str = ""
    size: int | None = None
    """Bytes of what the work describes, where the source says so."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Work).decode


def encode_work(work: Work) -> bytes:
    """Its bytes as they are stored; equal works have equal bytes."""
    return _encode(work)


def decode_work(body: bytes) -> Work:
    """The work behind :func:`encode_work`'s bytes."""
    return _decode(body)
