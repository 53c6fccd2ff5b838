"""Records and blobs over HTTP: bodies of any size, versions, ranges, and immutable responses."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

import stratalog
from tests.server.api import BUDGET, Client, mutation, problem, push, serving

OTHER = "/v1/organisations/acme/documents/other"
REPORT = "/v1/organisations/acme/records/report"
LARGE = Random(7).randbytes(9_000_000)


def test_a_put_of_a_new_body_makes_a_version_and_an_equal_body_makes_none(client: Client) -> None:
    first = client.put(REPORT, content=b"one", headers={"Stratalog-Metadata": '{"kind": "draft"}'}).json()
    again = client.put(REPORT, content=b"one").json()
    second = client.put(REPORT, content=b"two").json()
    assert [answer["version"] for answer in (first, again, second)] == [1, 1, 2]
    assert (first["metadata"], first["digest"]) == ({"kind": "draft"}, sha256(b"one").hexdigest())
    assert client.get(REPORT).content == b"two"
    assert client.get(f"{REPORT}?version=1").content == b"one"


def test_a_put_with_a_stale_expected_version_is_refused(client: Client) -> None:
    client.put(f"{REPORT}?expected=0", content=b"one")
    assert problem(client.put(f"{REPORT}?expected=0", content=b"two")) == (409, "version-conflict")


def test_a_put_if_newer_with_an_older_source_time_is_discarded(client: Client) -> None:
    client.put(f"{REPORT}?if_newer=true&source_time_ms=20", content=b"new")
    late = client.put(f"{REPORT}?if_newer=true&source_time_ms=10", content=b"old").json()
    assert (late["version"], client.get(REPORT).content) == (1, b"new")
    assert problem(client.put(f"{REPORT}?if_newer=true", content=b"x")) == (400, "invalid")


def test_a_put_if_newer_with_an_expected_version_is_refused(client: Client) -> None:
    client.put(f"{REPORT}?source_time_ms=1", content=b"old")
    refused = client.put(f"{REPORT}?if_newer=true&source_time_ms=2&expected=1", content=b"new")
    assert problem(refused) == (400, "invalid")
    assert client.get(REPORT).content == b"old"


def test_a_large_body_is_read_back_in_full_and_in_ranges(client: Client) -> None:
    assert client.put(REPORT, content=LARGE).json()["size"] == len(LARGE)
    assert client.get(REPORT).content == LARGE
    ranges = {"bytes=8388600-8388615": (8_388_600, 8_388_616), "bytes=-5": (8_999_995, 9_000_000)}
    for wanted, (start, end) in ranges.items():
        part = client.get(REPORT, headers={"Range": wanted})
        assert (part.status_code, part.content) == (206, LARGE[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/9000000"
    assert problem(client.get(REPORT, headers={"Range": "bytes=9000000-"})) == (416, "range-not-satisfiable")
    for ignored in ("bytes=0-1,5-6", "lines=1-2", "bytes=5-1", "bytes=-"):
        assert client.get(REPORT, headers={"Range": ignored}).status_code == 200


@pytest.mark.parametrize("name", ["If-Match", "If-None-Match", "If-Unmodified-Since", "Content-Range"])
def test_a_write_with_a_header_that_the_server_would_not_obey_is_refused(client: Client, name: str) -> None:
    client.put(REPORT, content=b"one")
    assert problem(client.put(REPORT, content=b"two", headers={name: "x"})) == (400, "invalid")
    assert problem(client.delete(REPORT, headers={name: "x"})) == (400, "invalid")
    assert client.get(REPORT).content == b"one"


def test_a_resumed_download_of_a_replaced_body_begins_again(client: Client) -> None:
    client.put(REPORT, content=b"old body")
    tag = client.get(REPORT).headers["etag"]
    rest = client.get(REPORT, headers={"Range": "bytes=4-", "If-Range": tag})
    assert (rest.status_code, rest.content) == (206, b"body")
    client.put(REPORT, content=b"new text")
    again = client.get(REPORT, headers={"Range": "bytes=4-", "If-Range": tag})
    assert (again.status_code, again.content) == (200, b"new text")
    beyond = client.get(REPORT, headers={"Range": "bytes=8-", "If-Range": tag})
    assert (beyond.status_code, beyond.content) == (200, b"new text")


def test_only_the_response_for_a_given_version_is_immutable(client: Client) -> None:
    client.put(REPORT, content=b"one")
    latest, named = client.get(REPORT), client.get(f"{REPORT}?version=1")
    assert "immutable" not in latest.headers["cache-control"]
    assert "immutable" in named.headers["cache-control"]
    same = client.get(REPORT, headers={"If-None-Match": latest.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert client.get(REPORT, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_record_is_deleted_and_undeleted(client: Client) -> None:
    client.put(REPORT, content=b"one")
    assert client.delete(REPORT).status_code == 204
    assert problem(client.get(REPORT)) == (404, "not-found")
    assert client.post(f"{REPORT}/undelete").json()["version"] == 3
    page = client.get(f"{REPORT}/versions").json()
    assert [(version["version"], version["deleted"]) for version in page["versions"]] == [
        (3, False),
        (2, True),
        (1, False),
    ]
    assert client.get(f"{REPORT}/versions?limit=2").json()["more"] is True


def test_records_are_listed_by_pages(client: Client) -> None:
    for name in "abc":
        client.put(f"/v1/organisations/acme/records/{name}", content=b"x")
    first = client.get("/v1/organisations/acme/records?limit=2").json()
    rest = client.get(f"/v1/organisations/acme/records?after={first['next']}").json()
    assert [record["id"] for page in (first, rest) for record in page["records"]] == ["a", "b", "c"]


def test_metadata_must_be_an_object(client: Client) -> None:
    for header in ("[1]", "{"):
        assert problem(client.put(REPORT, content=b"x", headers={"Stratalog-Metadata": header})) == (400, "invalid")


def test_metadata_is_read_as_utf_8(client: Client) -> None:
    metadata = {b"Stratalog-Metadata": '{"title": "Größe 😀"}'.encode()}
    assert client.put(REPORT, content=b"x", headers=metadata).json()["metadata"] == {"title": "Größe 😀"}


def test_a_query_that_is_not_utf_8_is_refused(client: Client) -> None:
    assert client.put(f"{REPORT}?write_id=%c3%bf", content=b"x").json()["write_id"] == "ÿ"
    for query in ("write_id=%ff", "write_id=%ed%a0%80", "source_time_ms=5&write_id=a%c3", "unknown=%fe"):
        assert problem(client.put(f"{REPORT}?{query}", content=b"y")) == (400, "invalid")
    assert client.get(REPORT).content == b"x"


def test_a_large_value_is_served_under_its_hash_as_immutable(client: Client) -> None:
    client.put(BUDGET)
    push(client, mutation("ada", 1, key="pages/1", value="x" * 5000))
    digest = client.get(f"{BUDGET}/items").json()["items"][0]["blob"]
    served = client.get(f"{BUDGET}/blobs/{digest}?collection=pages")
    assert sha256(served.content).hexdigest() == digest
    assert (served.headers["etag"], "immutable" in served.headers["cache-control"]) == (f'"{digest}"', True)
    assert client.get(f"{BUDGET}/blobs/{digest}?collection=pages", headers={"Range": "bytes=0-3"}).status_code == 206
    assert problem(client.get(f"{BUDGET}/blobs/{digest}?collection=other")) == (404, "not-found")


def test_a_record_s_body_is_served_under_its_hash(client: Client) -> None:
    digest = client.put(REPORT, content=LARGE[:200_000]).json()["digest"]
    assert client.get(f"{REPORT}/blobs/{digest}").content == LARGE[:200_000]


@pytest.mark.parametrize("path", ["", "/blobs/{digest}"])
def test_a_record_s_json_body_is_served_as_an_unencoded_octet_stream(client: Client, path: str) -> None:
    body = json.dumps([*range(30_000)]).encode()
    digest = client.put(REPORT, content=body).json()["digest"]
    answer = client.get(f"{REPORT}{path}".format(digest=digest))
    assert answer.content == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "content-encoding" not in answer.headers


def test_a_path_of_a_blob_cannot_reach_outside_its_document(tmp_path: Path) -> None:
    """Another document has the blob, which the store keeps in a file."""
    with stratalog.open(tmp_path / "data") as store, serving(store=store) as client:
        client.put(BUDGET)
        store.create("acme", "other").put("pages/1", LARGE[:500_000].hex())
        [digest] = [item["blob"] for item in client.get(f"{OTHER}/items").json()["items"]]
        [file] = tmp_path.rglob(f"{digest}*")
        assert client.get(f"{OTHER}/blobs/{digest}", params={"collection": "pages"}).status_code == 200
        owner = file.parents[2].name
        for path in (
            f"blobs/..%2F..%2F..%2F{owner}%2Fitems%2Fpages%2F{digest}",
            f"blobs/{digest}%2F..",
            "blobs/%2E%2E",
            f"blobs/{digest.upper()}",
        ):
            assert client.get(f"{BUDGET}/{path}", params={"collection": "pages"}).status_code in (400, 404)
        for collection in ("pages", "..", "%2e%2e", f"../../{owner}/items/pages", f"a/../../../{owner}/items/pages"):
            assert client.get(f"{BUDGET}/blobs/{digest}", params={"collection": collection}).status_code == 404
