"""Hostile files for a catalogue, each with the records that a poll must store and the number of dead letters."""

from __future__ import annotations

import codecs
import gzip
import lzma
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from stratalog_catalogue.names import file_id

E9 = b"\xe9"
CJK = "漢" * 16
LONG = "é" * 2000


class Hostile(msgspec.Struct, frozen=True):
    """A file, its source's settings, the stored bytes of its valid records by id, and the number of dead letters."""

    name: str
    form: str
    body: bytes
    taken: dict[str, bytes] = {}
    letters: int = 0
    settings: dict[str, Any] = {}
    file: str | bytes = "hostile"


def jsonl() -> Iterator[Hostile]:
    """Yield hostile files of JSON lines."""
    a, b = b'{"id":"a"}', b'{"id":"b"}'
    both = {"a": a, "b": b}

    def between(name: str, line: bytes, letters: int = 1, **more: Any) -> Hostile:
        return Hostile(f"jsonl {name}", "jsonl", b"\n".join([a, line, b, b""]), both, letters, **more)

    for name, line in {
        "latin-1 byte": b'{"id":"Caf' + E9 + b'"}',
        "cut off": b'{"id":',
        "lone surrogate": rb'{"id":"\ud800"}',
        "no object": b"[1]",
        "a number": b"7",
        "null": b"null",
        "no id": b'{"x":1}',
        "empty id": b'{"id":""}',
        "id null": b'{"id":null}',
        "id an object": b'{"id":{}}',
        "id a list": b'{"id":[1]}',
        "NUL byte": b'{"id":"\x00"}',
        "control character": b'{"id":"\x07"}',
        "NaN": b'{"id":"n","x":NaN}',
        "infinity": b'{"id":"n","x":Infinity}',
        "single quotes": b"{'id':'n'}",
        "trailing comma": b'{"id":"n",}',
        "two values": b'{"id":"n"}{"id":"m"}',
        "comment": b'{"id":"n"} // no',
        "deep": b"[" * 5000 + b"]" * 5000,
        "deep object": b'{"id":"n","x":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        "huge number": b'{"id":"n","x":' + b"9" * 5000 + b"}",
        "bad escape": rb'{"id":"\x41"}',
        "overlong UTF-8": b'{"id":"\xc0\xaf"}',
        "surrogate in UTF-8": b'{"id":"\xed\xa0\x80"}',
        "beyond Unicode": b'{"id":"\xf5\x80\x80\x80"}',
    }.items():
        yield between(name, line)
    for name, line, id in (
        ("CJK id", f'{{"id":"{CJK}"}}'.encode(), CJK),
        ("slashes", b'{"id":"../../etc/passwd"}', "../../etc/passwd"),
        ("long id", f'{{"id":"{LONG}"}}'.encode(), LONG),
        ("id with NUL", rb'{"id":"a\u0000b"}', "a\0b"),
        ("id with line end", rb'{"id":"a\nb"}', "a\nb"),
        ("number as written", b'{"id":1.10, "price":1.10}', "1.10"),
        ("large integer", b'{"id":"n","x":123456789012345678901234567890}', "n"),
        ("duplicate names", b'{"id":"n","x":1,"x":2}', "n"),
        ("escapes as written", rb'{"id":"n","x":"\u00e9\/"}', "n"),
        ("space as written", b'{ "id" : "n" }', "n"),
        ("emoji", '{"id":"👩‍👩‍👧"}'.encode(), "👩‍👩‍👧"),
        ("right to left", '{"id":"\u202eabc"}'.encode(), "\u202eabc"),
        ("at the inline bound", b'{"id":"n","x":"' + b"y" * (8192 - 17) + b'"}', "n"),
        ("one beyond it", b'{"id":"n","x":"' + b"y" * (8193 - 17) + b'"}', "n"),
        ("200 KB", b'{"id":"n","x":"' + b"y" * 200_000 + b'"}', "n"),
    ):
        yield Hostile(f"jsonl {name}", "jsonl", a + b"\n" + line + b"\n", {"a": a, id: line})
    yield Hostile("jsonl CRLF", "jsonl", a + b"\r\n" + b + b"\r\n", both)
    yield Hostile("jsonl no end of line", "jsonl", a + b"\n" + b, both)
    yield Hostile("jsonl mark", "jsonl", codecs.BOM_UTF8 + a + b"\n" + b, both)
    wide = '{"id":"é"}\n'.encode("utf-16-le")
    yield Hostile("jsonl UTF-16", "jsonl", codecs.BOM_UTF16_LE + wide, {"é": wide[:-2]})
    yield Hostile("jsonl UTF-16 cut off", "jsonl", codecs.BOM_UTF16_LE + wide + b"x", {"é": wide[:-2]}, 1)
    wide = '{"id":"é"}\n'.encode("utf-32-be")
    yield Hostile("jsonl UTF-32", "jsonl", codecs.BOM_UTF32_BE + wide, {"é": wide[:-4]})
    options = {"encoding": "latin-1"}
    yield Hostile("jsonl Latin-1 declared", "jsonl", b'{"id":"Caf\xe9"}\n', {"Café": b'{"id":"Caf\xe9"}'}, 0, options)
    old = {"encoding": "windows-1252"}
    yield Hostile("jsonl undefined in its encoding", "jsonl", b'{"id":"\x81"}\n', {}, 1, old)
    yield Hostile("jsonl marks inside", "jsonl", a + b"\n" + codecs.BOM_UTF8 + b + b"\n", both)
    yield Hostile("jsonl empty", "jsonl", b"")
    yield Hostile("jsonl empty lines", "jsonl", b"\n\r\n \n" + a, {"a": a})
    yield Hostile("jsonl of zeros", "jsonl", bytes(5000), {}, 1)


def json() -> Iterator[Hostile]:
    """Yield hostile JSON documents."""
    items = {"records": "items"}
    for name, body, settings in (
        ("cut off", b'[{"id":1},', {}),
        ("empty", b"", {}),
        ("a page of HTML", b"<html>503 Service Unavailable</html>", {}),
        ("deep", b"[" * 100_000, {}),
        ("path leads nowhere", b'{"other":[]}', items),
        ("Latin-1 name", b'{"it\xe9ms":1,"items":[', items),
        ("zeros", bytes(100), {}),
    ):
        yield Hostile(f"json {name}", "json", body, {}, 1, settings)
    yield Hostile("json empty list", "json", b"[]")
    first, second = b'{"id":1,"x":1.10}', b'{ "id" : 2 }'
    listed = b'{"items": [' + first + b' , {"id":"Caf\xe9"},\n' + second + b"]}"
    yield Hostile("json one bad item", "json", listed, {"1": first, "2": second}, 1, items)
    yield Hostile("json mark", "json", codecs.BOM_UTF8 + b"[" + first + b"]", {"1": first})
    wide = '[{"id":"é"}]'
    yield Hostile("json UTF-16", "json", wide.encode("utf-16"), {"é": wide[1:-1].encode("utf-16-le")})
    yield Hostile("json items of all kinds", "json", b'[1,"a",null,true,[],{},' + first + b"]", {"1": first}, 6)
    timed = {"time": "t"}
    for name, time in {
        "true": b"true",
        "text": b'"yesterday"',
        "year 99999": b'"99999-01-01"',
        "1e400": b"1e400",
        "object": b"{}",
        "month 13": b'"2023-13"',
        "far future": b"9" * 30,
    }.items():
        yield Hostile(f"json time {name}", "json", b'[{"id":1,"t":' + time + b"}]", {}, 1, timed)


def csv() -> Iterator[Hostile]:
    """Yield hostile files of CSV."""
    a, b = b'{"id":"a","t":"1"}', b'{"id":"b","t":"2"}'
    both = {"a": a, "b": b}
    for name, row, letters in (
        ("Latin-1 byte", b"n,\xe9", 1),
        ("too many values", b"n,1,2", 1),
        ("text after quotes", b'n,"x"y', 1),
        ("lone CR", b"n,x\ry", 1),
        ("no id", b",x", 1),
        ("empty row", b"", 0),
    ):
        yield Hostile(f"csv {name}", "csv", b"id,t\na,1\n" + row + b"\nb,2\n", both, letters)
    yield Hostile(
        "csv blank lines first", "csv", codecs.BOM_UTF8 + b"\r\n\r\nid,t\r\na,1\r\n\r\nb,2\r\nc,3,4\r\n", both, 1
    )
    yield Hostile("csv no names", "csv", b"  \nid,t\na,1\nb,2\n", {}, 1)
    yield Hostile("csv blank lines alone", "csv", b"\n\r\n\n")
    large = b"x" * 200_000
    yield Hostile(
        "csv large field", "csv", b"id,t\nn," + large + b"\na,1\n", {"a": a, "n": b'{"id":"n","t":"%s"}' % large}
    )
    yield Hostile("csv open quote", "csv", b'id,t\na,1\nb,"2\n', {"a": a}, 1)
    yield Hostile("csv line ends in quotes", "csv", b'id,t\na,"1\r\n2"\n', {"a": rb'{"id":"a","t":"1\r\n2"}'})
    yield Hostile("csv CRLF", "csv", b"id,t\r\na,1\r\n", {"a": a})
    yield Hostile("csv mark", "csv", codecs.BOM_UTF8 + b"id,t\na,1\n", {"a": a})
    yield Hostile("csv UTF-16", "csv", "id,t\na,1\n".encode("utf-16"), {"a": a})
    yield Hostile(
        "csv Latin-1", "csv", b"id,t\na,\xe9\n", {"a": '{"id":"a","t":"é"}'.encode()}, 0, {"encoding": "latin1"}
    )
    yield Hostile("csv a column twice", "csv", b"id,t,t\na,1,2\n", {}, 1)
    yield Hostile("csv old Macintosh", "csv", b"id,t\ra,1\r", {}, 1)
    yield Hostile("csv bad header", "csv", b"id,\xe9\na,1\n", {}, 1)
    yield Hostile("csv short row", "csv", b"id,t\na\n", {"a": b'{"id":"a","t":null}'})
    yield Hostile("csv empty", "csv", b"")
    yield Hostile(
        "csv zeros",
        "csv",
        b"id,t\n" + bytes(50) + b"\na,1\n",
        {"a": a, "\0" * 50: rb'{"id":"%s","t":null}' % (rb"\u0000" * 50)},
    )


def rfc822() -> Iterator[Hostile]:
    """Yield hostile files of RFC 822 paragraphs."""
    a, b = b"id: a\ntext: x\n y\n", b"id: b\n"
    yield Hostile(
        "rfc822 CRLF", "rfc822", b"id: a\r\nt: x\r\n\r\nid: b\r\n", {"a": b"id: a\r\nt: x\r\n", "b": b"id: b\r\n"}
    )
    yield Hostile("rfc822 mark", "rfc822", codecs.BOM_UTF8 + a + b"\n" + b, {"a": a, "b": b})
    yield Hostile("rfc822 Latin-1 text", "rfc822", b"id: a\nt: \xe9\n\n" + b, {"a": b"id: a\nt: \xe9\n", "b": b})
    yield Hostile("rfc822 Latin-1 id", "rfc822", b"id: \xe9\n\n" + b, {"b": b}, 1)
    yield Hostile("rfc822 no field", "rfc822", b"nothing\n\n" + b, {"b": b}, 1)
    yield Hostile("rfc822 begins with a continuation", "rfc822", b" x\n\n" + b, {"b": b}, 1)
    yield Hostile("rfc822 many empty lines", "rfc822", b"\n\n\n" + a + b"\n\r\n\n" + b + b"\n\n", {"a": a, "b": b})
    yield Hostile("rfc822 zeros", "rfc822", bytes(10) + b"\n\n" + b, {"b": b}, 1)
    declared = b"id: \xe9\n"
    yield Hostile("rfc822 Latin-1 declared", "rfc822", declared, {"é": declared}, 0, {"encoding": "iso-8859-1"})


def xml() -> Iterator[Hostile]:
    """Yield hostile XML documents."""
    each = {"records": "i"}
    a = b"<i><id>a</id></i>"
    for name, body, taken in (
        ("empty", b"", {}),
        ("entities", b'<!DOCTYPE r [<!ENTITY e "x">]><r>' + a + b"</r>", {}),
        ("external entity", b'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><r><i><id>&e;</id></i></r>', {}),
        ("attribute defaults", b'<!DOCTYPE r [<!ATTLIST i a CDATA "x">]><r>' + a + b"</r>", {}),
        ("unknown entity", b"<r>" + a + b"<i><id>&nbsp;</id></i></r>", {"a": a}),
        ("too deep", b"<r>" + a + b"<i>" * 200, {"a": a}),
        ("cut off", b"<r>" + a + b"<i>", {"a": a}),
        ("wrong end", b"<r>" + a + b"<i></j></r>", {"a": a}),
        ("Latin-1 byte", b"<r>" + a + b"<i><id>\xe9</id></i></r>", {"a": a}),
        ("control character", b"<r>" + a + b"<i><id>\x0b</id></i></r>", {"a": a}),
        ("control reference", b"<r>" + a + b"<i><id>&#11;</id></i></r>", {"a": a}),
        ("two roots", b"<r>" + a + b"</r><r/>", {"a": a}),
        ("text after", b"<r>" + a + b"</r>x", {"a": a}),
        ("duplicate attribute", b"<r>" + a + b"<i a='' a=''/></r>", {"a": a}),
        ("HTML", b"<html><br></html>", {}),
        ("unknown encoding", b"<?xml version='1.0' encoding='x-none'?><r>" + a + b"</r>", {}),
        ("multi-byte encoding", b"<?xml version='1.0' encoding='shift_jis'?><r>" + a + b"</r>", {}),
        ("wrong mark", codecs.BOM_UTF16_LE + b"<r>" + a + b"</r>", {}),
    ):
        yield Hostile(f"xml {name}", "xml", body, taken, 1, each)
    for name, body, id, exact in (
        ("document type", b"<!DOCTYPE r><r>" + a + b"</r>", "a", a),
        ("foreign document type", b'<!DOCTYPE r SYSTEM "r.dtd"><r>' + a + b"</r>", "a", a),
        ("prefixes", b'<r xmlns:p="u"><p:i><p:id>a</p:id></p:i></r>', "a", b"<p:i><p:id>a</p:id></p:i>"),
        ("quotes in tags", b"<r><i a='>' b=\"'/>\"><id>a</id></i></r>", "a", b"<i a='>' b=\"'/>\"><id>a</id></i>"),
        ("an end with space", b"<r><i ><id>a</id></i \n></r>", "a", b"<i ><id>a</id></i \n>"),
        ("empty element", b"<r><i id='a'/></r>", "a", b"<i id='a'/>"),
        (
            "comments and CDATA",
            b"<r><i><!-- </i> --><id><![CDATA[<]]></id></i></r>",
            "<",
            b"<i><!-- </i> --><id><![CDATA[<]]></id></i>",
        ),
        ("references as written", b"<r><i><id>&#x61;</id></i></r>", "a", b"<i><id>&#x61;</id></i>"),
        ("nested", b"<r><i><id>a</id><i><id>b</id></i></i></r>", "a", b"<i><id>a</id><i><id>b</id></i></i>"),
        ("mark", codecs.BOM_UTF8 + b"<r>" + a + b"</r>", "a", a),
    ):
        settings = {**each, "id": "@id"} if name == "empty element" else each
        yield Hostile(f"xml {name}", "xml", body, {id: exact}, 0, settings)
    text = "<r><i><id>é</id></i></r>"
    element = "<i><id>é</id></i>"
    for encoding in ("iso-8859-1", "windows-1252", "iso-8859-15"):
        body = f"<?xml version='1.0' encoding='{encoding}'?>{text}".encode(encoding)
        yield Hostile(f"xml {encoding}", "xml", body, {"é": element.encode(encoding)}, 0, each)
    yield Hostile("xml UTF-16", "xml", text.encode("utf-16"), {"é": element.encode("utf-16-le")}, 0, each)
    declared = f'<?xml version="1.0" encoding="utf-16"?>{text}'
    yield Hostile("xml UTF-16 declared", "xml", declared.encode("utf-16"), {"é": element.encode("utf-16-le")}, 0, each)
    unmarked = declared.encode("utf-16-be")
    yield Hostile("xml UTF-16 without a mark", "xml", unmarked, {"é": element.encode("utf-16-be")}, 0, each)
    document = b"<?xml version='1.0'?>\n<!-- c --><r xmlns:p='u'><id>a</id></r>\n"
    yield Hostile("xml whole document", "xml", document, {"a": document})
    yield Hostile(
        "xml whole document with a mark", "xml", codecs.BOM_UTF8 + document, {"a": codecs.BOM_UTF8 + document}
    )


def files() -> Iterator[Hostile]:
    """Yield damaged compressed files, and files with hostile names."""
    line = b'{"id":"a"}\n'
    taken = {"a": line.strip()}
    packed, stretched = gzip.compress(line), gzip.compress(line * 5000)
    for name, body, suffix in (
        ("gz cut off", stretched[:-9], "gz"),
        ("gz with a wrong sum", packed[:-8] + bytes(8), "gz"),
        ("gz that is none", b"plain text", "gz"),
        ("gz with rubbish after it", packed + b"rubbish", "gz"),
        ("gz with a damaged body", packed[:12] + b"\xff" * 10 + packed[22:], "gz"),
        ("xz cut off", lzma.compress(line * 500)[:-20], "xz"),
        ("xz that is none", b"plain text", "xz"),
        ("xz of zeros", bytes(100), "xz"),
        ("zip as it is", b"PK\x03\x04" + bytes(30), "zip"),
    ):
        yield Hostile(f"file {name}", "jsonl", body, {}, 1, {}, f"hostile.{suffix}")
    yield Hostile("file gz", "jsonl", packed, taken, 0, {}, "hostile.jsonl.gz")
    yield Hostile(
        "file gz of several members",
        "jsonl",
        packed + gzip.compress(b'{"id":"b"}'),
        {**taken, "b": b'{"id":"b"}'},
        0,
        {},
        "h.gz",
    )
    yield Hostile("file gz empty", "jsonl", gzip.compress(b""), {}, 0, {}, "h.gz")
    yield Hostile("file name with a line end", "jsonl", line, taken, 0, {}, "a\nb.jsonl")
    yield Hostile("file name no UTF-8", "jsonl", line, taken, 0, {}, b"a\xff.jsonl")
    yield Hostile("file name no UTF-8, bad body", "jsonl", b"x\n", {}, 1, {}, b"a\xff.jsonl")
    yield Hostile("file name no UTF-8, packed", "jsonl", packed[:-3], {}, 1, {}, b"a\xff.gz")
    yield Hostile("file name like an option", "jsonl", line, taken, 0, {}, "--help")
    yield Hostile("file name of CJK", "jsonl", line, taken, 0, {}, "漢" * 80)
    content = bytes(range(256)) * 50
    yield Hostile("file whole", "file", content, {"hostile": content})
    yield Hostile("file whole, empty", "file", b"", {"hostile": b""})
    yield Hostile("file whole, like a pattern", "file", content, {"[a-z]*?": content}, 0, {}, "[a-z]*?")
    yield Hostile(
        "file whole, name no UTF-8", "file", content, {file_id(os.fsdecode(b"a\xff")): content}, 0, {}, b"a\xff"
    )


HOSTILE = [*jsonl(), *json(), *csv(), *rfc822(), *xml(), *files()]
