"""`find_access` uses the environment alone if AWS's own tools would find the same access there."""

from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest
from botocore.session import Session

from stratalog.backends.aws_access import NEEDS_BOTOCORE, EnvironmentAccess, SessionAccess, find_access

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}


@pytest.fixture(autouse=True)
def lambda_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variables that a Lambda function has, and no configuration file."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3", *NEEDS_BOTOCORE):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**KEYS, "AWS_DEFAULT_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_the_environment_alone_is_enough() -> None:
    access = find_access()
    assert isinstance(access, EnvironmentAccess)
    assert (access.region, access.dynamodb_url()) == ("eu-west-1", "https://dynamodb.eu-west-1.amazonaws.com")
    keys = access.credentials()
    assert (keys.access_key, keys.secret_key, keys.token) == ("key", "secret", "token")
    session = access.session()
    assert (session.region_name, session.get_credentials().get_frozen_credentials()) == (
        "eu-west-1",
        ("key", "secret", "token", None),
    )


def test_every_region_has_the_endpoint_of_aws_s_own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    # All sessions share one loader. Otherwise each session would read botocore's files again.
    loader = botocore.session.create_loader()
    monkeypatch.setattr(botocore.session, "create_loader", lambda *_: loader)
    partitions = [name for name in Session().get_available_partitions() if not name.startswith("aws-iso")]
    regions = [region for name in partitions for region in Session().get_available_regions("dynamodb", name)]
    by_environment = 0
    for region in regions:
        access = find_access(region)
        by_environment += isinstance(access, EnvironmentAccess)
        assert access.dynamodb_url() == SessionAccess(region).dynamodb_url()
    # China's and the government's regions have other domains or other rules, so `find_access` asks botocore.
    assert 25 <= by_environment < len(regions)


@pytest.mark.parametrize("variable", sorted(NEEDS_BOTOCORE))
def test_botocore_is_asked_if_a_variable_may_change_the_result(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").touch()
    assert isinstance(find_access(), EnvironmentAccess)
    monkeypatch.setenv(variable, "any")
    monkeypatch.setattr("stratalog.backends.aws_access.SessionAccess", lambda region: ("asked", region))
    assert find_access() == ("asked", "")


@pytest.mark.parametrize("file", ["config", "credentials"])
def test_botocore_is_asked_if_there_is_a_configuration_file(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("[default]\nregion = us-east-1\n")
    assert isinstance(find_access(), SessionAccess)


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"])
def test_botocore_is_asked_if_the_environment_lacks_a_part(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(missing)
    monkeypatch.setattr("stratalog.backends.aws_access.SessionAccess", lambda region: ("asked", region))
    assert find_access() == ("asked", "")


@pytest.mark.parametrize(
    ("variables", "s3"),
    [
        ({}, ""),
        ({"AWS_ENDPOINT_URL": "http://all"}, "http://all"),
        ({"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}, "http://s3"),
    ],
)
def test_the_endpoints_are_those_of_aws_s_own_tools(
    variables: dict[str, str], s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    mine, theirs = find_access(), SessionAccess()
    assert isinstance(mine, EnvironmentAccess)
    assert (mine.endpoint("s3"), mine.dynamodb_url()) == (s3, theirs.dynamodb_url())
    assert theirs.endpoint("s3") == s3
