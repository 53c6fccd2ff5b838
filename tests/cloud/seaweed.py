"""Clients and blobs on the object store that runs for the tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3

from stratalog.backends.aws_access import SessionAccess
from stratalog.backends.boto import aws_client
from stratalog.backends.objectstore import ObjectBlobs, open_object_blobs
from stratalog.backends.service_request import RequestPolicy
from stratalog.clock import Clock, SystemClock, new_id
from stratalog.testing.emulators import KEY, SECRET, Emulator

__all__ = ["PLAIN", "VERSIONED", "blobs_in", "client", "session"]

VERSIONED = "versioned"
PLAIN = "plain"


@cache
def session() -> boto3.Session:
    """Return a session with the emulators' credentials. Tests share the session, since its first client is slow."""
    return boto3.Session(aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")


def client(emulator: Emulator) -> Any:
    """Return an S3 client of the object store."""
    return aws_client("s3", session(), emulator.url, RequestPolicy())


def blobs_in(
    bucket: str, emulator: Emulator, prefix: str = "", clock: Clock | None = None, *, retains_freed: bool = False
) -> ObjectBlobs:
    """Return blobs in the bucket, under ``prefix``. If ``prefix`` is empty, use a new prefix."""
    prefix = prefix or new_id(SystemClock())
    return open_object_blobs(
        f"s3://{bucket}/{prefix}",
        clock or SystemClock(),
        endpoint=emulator.url,
        access=SessionAccess(session=session()),
        retains_freed=retains_freed,
    )
