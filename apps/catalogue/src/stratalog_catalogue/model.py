"""The shared model of works, for the records of all sources. `formats/catalogue.md` specifies the model."""

from __future__ import annotations

import msgspec

__all__ = ["MODEL_VERSION", "Agent", "Dated", "Identifier", "Relation", "Work", "decode_work", "encode_work"]

MODEL_VERSION = 1


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person or organisation that made a work, and its role."""

    name: str
    role: str = ""


class Dated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A date as the source writes it, and the kind of event at that date."""

    value: str
    kind: str = ""


class Identifier(msgspec.Struct, frozen=True):
    """An identifier of a work in a named scheme."""

    scheme: str
    value: str


class Relation(msgspec.Struct, frozen=True):
    """A relation to another work. ``target`` is the name that the source gives to the other work."""

    kind: str
    target: str


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="model", tag=MODEL_VERSION):
    """One work.

    A work does not contain the time of its transformation, so the same record always gives the same bytes.
    """

    id: str
    """The source's own id. The pair of ``source`` and ``id`` is unique."""

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
    """The size in bytes of the object that the work describes, if the source gives the size."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Work).decode


def encode_work(work: Work) -> bytes:
    """Return the bytes with which the catalogue stores a work. Equal works have equal bytes."""
    return _encode(work)


def decode_work(body: bytes) -> Work:
    """Decode the work from bytes that :func:`encode_work` returned."""
    return _decode(body)
