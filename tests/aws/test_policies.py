"""`needs` yields the permissions of a request. A request of an unknown kind needs a permission that no role has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.aws.policies import Asked, Role, needs

BUCKET = "arn:aws:s3:::bucket"
ALL_OF_OURS = {
    "Action": ["s3:*Object", "s3:*ObjectVersion", "s3:ListBucket*", "dynamodb:*", "sqs:*", "execute-api:*"],
    "Resource": "*",
}


def signed(service: str, **headers: str) -> dict[str, str]:
    scope = f"Credential=KEY/20260101/us-east-1/{service}/aws4_request"
    return {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0", **headers}


@pytest.mark.parametrize(
    ("method", "path", "action", "resource"),
    [
        ("GET", "/bucket/a/b", "GetObject", f"{BUCKET}/a/b"),
        ("HEAD", "/bucket/a/b", "GetObject", f"{BUCKET}/a/b"),
        ("PUT", "/bucket/a%20b", "PutObject", f"{BUCKET}/a b"),
        ("DELETE", "/bucket/a?versionId=1", "DeleteObjectVersion", f"{BUCKET}/a"),
        ("GET", "/bucket?list-type=2", "ListBucket", BUCKET),
        ("GET", "/bucket?versions", "ListBucketVersions", BUCKET),
    ],
)
def test_a_request_to_s3_needs_the_action_on_its_key_or_bucket(
    method: str, path: str, action: str, resource: str
) -> None:
    assert list(needs(method, path, signed("s3"), b"")) == [Asked(f"s3:{action}", resource)]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/", signed("sts")),
        ("GET", "/bucket/key", signed("secretsmanager")),
        ("GET", "/bucket/key", {}),
        ("POST", "/", signed("kms", **{"x-amz-target": "TrentService.Decrypt"})),
        ("POST", "/bucket/key", signed("s3", **{"x-amz-target": "TrentService.Decrypt"})),
        ("PATCH", "/bucket/key", signed("s3")),
        ("PUT", "/bucket", signed("s3")),
        ("POST", "/bucket?delete", signed("s3")),
        ("DELETE", "/bucket", signed("s3")),
    ],
)
def test_a_request_of_an_unknown_kind_is_refused(method: str, path: str, headers: dict[str, Any]) -> None:
    role = Role("http://127.0.0.1:1", [ALL_OF_OURS])
    try:
        asked = list(needs(method, path, headers, json.dumps({}).encode()))
        assert asked
        assert not role.take(asked)
        assert role.denied == set(asked)
    finally:
        role._server.server_close()


def test_the_sets_of_a_role_can_be_iterated_while_requests_arrive() -> None:
    role = Role("http://127.0.0.1:1", [])
    try:
        role.take([Asked("s3:GetObject", "a")])
        for _ in role.asked:
            role.take([Asked("s3:GetObject", "b")])
        for _ in role.denied:
            role.take([Asked("s3:GetObject", "c")])
        assert len(role.asked) == len(role.denied) == 3
    finally:
        role._server.server_close()
