"""Every call that accepts a URL or a path raises Invalid for a malformed URL, and Unavailable for an unusable path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import stratalog
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.client.http import document_of
from stratalog.errors import Invalid, Unavailable
from stratalog.homes import is_inside, location_of, make_store, open_blobs
from stratalog.server.web_tokens import WebTokens

DOCUMENT = "/v1/organisations/acme/documents/plan"
MALFORMED_STORES = [
    "aws://[x",
    "aws://plans\u2100",
    "postgresql://[x",
    "postgresql://host/data?blobs=s3://[x",
    "postgresql://host/data?schema=\ud800",
    "file://a\0b",
    "a\0b",
    "a\ud800b",
]


@pytest.mark.parametrize("url", MALFORMED_STORES, ids=ascii)
def test_a_malformed_url_of_a_store_is_refused(url: str) -> None:
    for create in (False, True):
        with pytest.raises(Invalid) as caught:
            stratalog.open(url, create=create)
        assert str(caught.value).encode()
    with pytest.raises(Invalid):
        make_store(url)


@pytest.mark.parametrize("url", ["s3://[x", "s3://bucket\ud800", "a\0b"], ids=ascii)
def test_a_malformed_url_of_blobs_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        open_blobs(url)


@pytest.mark.parametrize("port", ["x", "99999"])
@pytest.mark.parametrize("host", ["http://host", "http://[x"])
def test_a_malformed_url_of_a_server_is_refused(host: str, port: str) -> None:
    url = f"{host}:{port}"
    for call in (
        lambda: Endpoint(url),
        lambda: document_of(url + DOCUMENT),
        lambda: WebTokens(url, algorithms=["RS256"], audience="plans", issuer="issuer"),
    ):
        with pytest.raises(Invalid, match="malformed"):
            call()


def test_a_password_in_a_malformed_url_is_not_shown() -> None:
    with pytest.raises(Invalid) as caught:
        location_of("postgresql://user:secret@host\u2100/data")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:/ann:secret@db/app",
        "postgresql//ann:secret@db/app",
        "postgres:app",
        "AWS:a",
        "aws//a",
        "file:/a",
        "memory:a",
        "s3:/a",
        "s3//a",
    ],
)
def test_a_url_without_a_colon_and_two_slashes_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the URL counted as the name of a folder, messages would show its password."""
    monkeypatch.chdir(tmp_path)
    calls: list[Callable[[str], object]] = [stratalog.open, make_store, location_of, open_blobs]
    for call in calls:
        with pytest.raises(Invalid, match="malformed") as caught:
            call(url)
        assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_may_be_named_like_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert make_store("./aws:plans") == ["folder aws:plans"]


def test_a_path_that_is_too_long_is_unavailable(tmp_path: Path) -> None:
    for path in (tmp_path / ("a" * 300), tmp_path / ("a/" * 3000)):
        for create in (False, True):
            with pytest.raises(Unavailable):
                stratalog.open(path, create=create)
            with pytest.raises(Unavailable):
                open_blobs(path, create=create)
        with pytest.raises(Unavailable):
            make_store(path)


def test_the_scheme_of_a_folder_may_have_capitals(tmp_path: Path) -> None:
    for scheme in ("FILE", "File", "file"):
        assert location_of(f"{scheme}://{tmp_path}/store") == f"{tmp_path}/store"


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("store", True),
        ("link/backups", True),
        ("elsewhere/into/backups", True),
        ("elsewhere/../store/blobs/acme", True),
        ("store/../backups", False),
        ("store/out/backups", False),
        ("store-backups", False),
        (".", False),
        ("loop/backups", False),
    ],
)
def test_a_folder_inside_the_folder_of_a_store_is_found_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, expected: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("store/blobs").mkdir(parents=True)
    Path("elsewhere").mkdir()
    for link, target in {
        "link": "store",
        "store/out": "../elsewhere",
        "elsewhere/into": "../store/blobs",
        "loop": "loop",
    }.items():
        Path(link).symlink_to(target)
    outer = tmp_path / "store"
    for store in ("store", "./store/", f"FILE://{outer}", f"postgresql://host/data?blobs={outer}"):
        assert [is_inside(folder, store), is_inside(f"file://{tmp_path / folder}", store)] == [expected] * 2


@pytest.mark.parametrize(
    ("url", "store"),
    [
        ("backups", "memory:"),
        ("backups", "postgresql://host/data"),
        ("backups", "postgresql://host/data?blobs=s3://bucket"),
        ("backups", "aws://plans"),
        ("s3://bucket", "."),
    ],
)
def test_no_folder_is_inside_a_store_without_a_folder_and_no_bucket_is_inside_a_folder(url: str, store: str) -> None:
    assert not is_inside(url, store)
