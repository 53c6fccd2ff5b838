"""The region, the endpoints and the credentials that AWS's own tools would use.

The environment of a Lambda function contains the region, the endpoints and the credentials. `EnvironmentAccess` reads
the environment without botocore. The import and the session of botocore take longer than everything else in the cold
start of a function.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from stratalog.backends.dynamodb_client import Credentials
from stratalog.errors import Unavailable

__all__ = ["AwsAccess", "EnvironmentAccess", "SessionAccess", "configured_endpoint", "find_access"]

# The time for which obstore may reuse credentials. botocore renews credentials that expire within ten minutes, so its
# credentials are valid for longer than CREDENTIALS_TTL.
CREDENTIALS_TTL = timedelta(minutes=9)
# With one of these variables the region, an endpoint or the credentials may come from another source, or may change.
NEEDS_BOTOCORE = frozenset(
    {
        "AWS_ACCOUNT_ID",
        "AWS_ACCOUNT_ID_ENDPOINT_MODE",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_DEFAULT_PROFILE",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_PROFILE",
        "AWS_SECURITY_TOKEN",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
    }
)
FILES = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}
# The regions of AWS's partition `aws`, by the pattern in botocore's `partitions.json`. Other partitions have other
# domains.
REGION = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+")


class AwsAccess(Protocol):
    """The region and endpoints of a store's services, and the credentials for these services."""

    region: str
    """The region; empty if no region is set."""

    has_credentials: bool

    def endpoint(self, service: str) -> str:
        """Return the URL that is configured for a service, or "" if none is configured."""
        ...

    def dynamodb_url(self) -> str:
        """Return the URL of DynamoDB."""
        ...

    def credentials(self) -> Credentials:
        """Return the current credentials. Requires `has_credentials`. Raises Unavailable if a renewal fails."""
        ...

    def object_store_options(self) -> Mapping[str, Any]:
        """Return the credentials as options of obstore's S3 store. Raises Unavailable if there are no credentials."""
        ...

    def session(self) -> Any:
        """Return a boto3 session with the same region and credentials."""
        ...


def find_access(region: str = "") -> AwsAccess:
    """Return the access that AWS's own tools would find. ``region`` takes precedence over the configured region.

    Raises ModuleNotFoundError without boto3.
    """
    chosen = region or os.environ.get("AWS_DEFAULT_REGION", "")
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not (key and secret and REGION.fullmatch(chosen)) or _needs_botocore():
        return SessionAccess(region)
    if find_spec("boto3") is None:
        raise ModuleNotFoundError("No module named 'boto3'", name="boto3")
    return EnvironmentAccess(chosen, key, secret, os.environ.get("AWS_SESSION_TOKEN") or None)


def _needs_botocore() -> bool:
    """Return whether a variable or a file may change the region, an endpoint or the credentials."""
    return not NEEDS_BOTOCORE.isdisjoint(os.environ) or any(
        _has_content(Path(os.environ.get(variable) or Path.home() / ".aws" / name).expanduser())
        for variable, name in FILES.items()
    )


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


class _Keys(msgspec.Struct):
    access_key: str
    secret_key: str
    token: str | None


class EnvironmentAccess:
    """Access by the environment alone. The credentials do not change as long as the process runs."""

    has_credentials = True

    def __init__(self, region: str, access_key: str, secret_key: str, token: str | None) -> None:
        self.region = region
        self._keys = _Keys(access_key, secret_key, token)

    def endpoint(self, service: str) -> str:
        return _endpoint_in_environment(service)

    def dynamodb_url(self) -> str:
        return self.endpoint("dynamodb") or f"https://dynamodb.{self.region}.amazonaws.com"

    def credentials(self) -> Credentials:
        return self._keys

    def object_store_options(self) -> Mapping[str, Any]:
        keys = {"access_key_id": self._keys.access_key, "secret_access_key": self._keys.secret_key}
        return {**keys, **({"session_token": self._keys.token} if self._keys.token else {})}

    def session(self) -> Any:
        import boto3  # type: ignore[import-untyped]

        return boto3.Session(self._keys.access_key, self._keys.secret_key, self._keys.token, region_name=self.region)


class SessionAccess:
    """Access by a boto3 session, by default a new one. The session reads AWS's configuration and the machine's role."""

    def __init__(self, region: str = "", session: Any = None) -> None:
        import boto3

        self._session = session or boto3.Session(region_name=region or None)
        self._credentials = self._session.get_credentials()
        self.region: str = region or self._session.region_name or ""
        self.has_credentials: bool = self._credentials is not None

    def endpoint(self, service: str) -> str:
        return configured_endpoint(self._session._session, service)

    def dynamodb_url(self) -> str:
        return str(self._session.client("dynamodb", region_name=self.region).meta.endpoint_url)

    def credentials(self) -> Credentials:
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

        try:
            return cast(Credentials, self._credentials.get_frozen_credentials())
        except BotoCoreError as exc:
            raise Unavailable("the AWS credentials cannot be renewed", reason=str(exc)) from exc

    def object_store_options(self) -> Mapping[str, Any]:
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            return {"credential_provider": Boto3CredentialProvider(self._session, ttl=CREDENTIALS_TTL)}
        except ValueError as exc:
            raise Unavailable("no credentials for the object store were found") from exc

    def session(self) -> Any:
        return self._session


def configured_endpoint(session: Any, service: str) -> str:
    """Return the endpoint URL that the environment or the profile of a botocore session has for a service, or "".

    The sources have the same precedence as in AWS's own tools: “Service-specific endpoints”, AWS SDKs and Tools
    Reference Guide.
    """
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return ""
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services", ""), {})
    of_profile = services.get(service, {}).get("endpoint_url") or profile.get("endpoint_url") or ""
    return _endpoint_in_environment(service) or of_profile


def _endpoint_in_environment(service: str) -> str:
    return os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL", "")
