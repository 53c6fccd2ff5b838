"""Each request has the same signature that AWS's own library gives it."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from stratalog.backends.dynamodb_client import Signer

HOST = "dynamodb.eu-west-1.amazonaws.com"
SECONDS = 1_795_000_000


@given(
    body=st.binary(max_size=200),
    seconds=st.integers(0, 4_000_000_000),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
    token=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
)
def test_the_signature_equals_the_signature_of_botocore(
    body: bytes, seconds: int, secret: str, token: str | None
) -> None:
    credentials = Credentials("AKIDEXAMPLE", secret, token)
    ours = headers_of(Signer(HOST, "eu-west-1").signed("PutItem", body, credentials, seconds))
    assert ours["authorization"] == botocore_s(body, seconds, credentials, ours)


def test_a_cached_signing_key_is_used_only_for_its_day_and_secret() -> None:
    signer = Signer(HOST, "eu-west-1")
    for secret, seconds in (("one", SECONDS), ("two", SECONDS), ("two", SECONDS + 86_400), ("one", SECONDS)):
        credentials = Credentials("AKIDEXAMPLE", secret)
        fresh = Signer(HOST, "eu-west-1").signed("GetItem", b"{}", credentials, seconds)
        assert signer.signed("GetItem", b"{}", credentials, seconds) == fresh


def test_a_signed_request_ends_with_its_body_and_has_its_content_length() -> None:
    request = Signer(HOST, "eu-west-1").signed("PutItem", b'{"a":1}', Credentials("a", "b"), SECONDS)
    assert request.startswith(b"POST / HTTP/1.1\r\n")
    assert request.endswith(b"\r\n\r\n" + b'{"a":1}')
    assert headers_of(request)["content-length"] == "7"


@pytest.mark.parametrize("token", [None, "session"])
def test_a_session_token_is_sent_only_if_the_credentials_have_a_token(token: str | None) -> None:
    request = Signer(HOST, "eu-west-1").signed("PutItem", b"{}", Credentials("a", "b", token), SECONDS)
    assert headers_of(request).get("x-amz-security-token") == token


def botocore_s(body: bytes, seconds: int, credentials: Credentials, headers: dict[str, str]) -> str:
    """Return botocore's signature of the same request."""
    signed = {name: headers[name] for name in ("content-type", "x-amz-target")}
    request = AWSRequest("POST", f"https://{HOST}/", headers=signed, data=body)
    at = datetime.fromtimestamp(seconds, UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=at.replace(tzinfo=None)):
        SigV4Auth(credentials, "dynamodb", "eu-west-1").add_auth(request)
    return str(request.headers["Authorization"])


def headers_of(request: bytes) -> dict[str, str]:
    """Return the headers of a serialised request."""
    lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return dict(line.split(":", 1) for line in lines)
