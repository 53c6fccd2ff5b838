"""SeaweedFS, a real object store, as a process of this test run; and what tests make on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from stratalog.backends.attempts import Budget
from stratalog.backends.boto import aws_client
from stratalog.backends.objectstore import ObjectBlobs, open_object_blobs
from stratalog.clock import Clock, SystemClock, new_id
from tests.cloud.emulators import Command, Emulator, program, started

__all__ = ["PLAIN", "VERSIONED", "blobs_in", "client", "seaweed", "session"]

VERSIONED = "versioned"
PLAIN = "plain"
KEY = "test"
SECRET = "not-a-secret"


@contextmanager
def seaweed(folder: Path) -> Iterator[Emulator]:
    """An object store on ``folder``, without buckets."""

    def command(ports: Sequence[int]) -> Command:
        names = ("s3", "master", "volume", "filer", "admin")
        chosen = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=True)]
        return Command(
            [program("weed"), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *chosen, *QUIET],
            {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"},
            "/healthz",
        )

    with started("seaweed", 5, command, folder) as emulator:
        yield emulator


@cache
def session() -> boto3.Session:
    """The credentials that the emulators are started with; one session, since its first client is slow to make."""
    return boto3.Session(aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")


def client(emulator: Emulator) -> Any:
    """A client of an object store."""
    return aws_client("s3", session(), emulator.url, Budget())


def blobs_in(bucket: str, emulator: Emulator, prefix: str = "", clock: Clock | None = None) -> ObjectBlobs:
    """Blobs under a prefix that no other test has."""
    prefix = prefix or new_id(SystemClock())
    return open_object_blobs(
        f"s3://{bucket}/{prefix}", clock or SystemClock(), endpoint=emulator.url, session=session()
    )


# Every part that would listen or call home besides the five ports.
QUIET = (
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-s3.autoCreateBucket=false",
    "-webdav=false",
    "-admin.ui=false",
    "-debug.port=0",
    "-master.telemetry=false",
)
