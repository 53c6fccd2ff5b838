"""A store on AWS: its address, `aws://NAME?…`, and the table, bucket, queue and dead-letter queue behind it.

Endpoints and credentials come from the sources that AWS's own tools use. If the address names no region, the region
comes from these sources too.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from stratalog.backends.aws_access import find_access
from stratalog.backends.boto import aws_client
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_setup import create_table, open_client, table_is_ready
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.objectstore import ObjectBlobs, open_object_blobs
from stratalog.backends.s3_versions import bucket_is_ready, create_bucket
from stratalog.backends.service_request import RequestPolicy
from stratalog.backends.sqs import SqsQueue
from stratalog.backends.sqs_setup import create_queues, find_queues, missing_queues
from stratalog.clock import Clock
from stratalog.errors import Invalid
from stratalog.ports.meter import Meter
from stratalog.urls import split_url

__all__ = ["Address", "AwsStore", "open_bucket", "parse_address"]

# The time for which one receive waits for a message. An idle worker sends one billed request per wait.
QUEUE_WAIT_SECONDS = 2
MAY_NAME = {"bucket", "queue", "region", "prefix", "freed"}


class Address(msgspec.Struct, frozen=True):
    """The parts of an `aws://` URL. An empty region means the region that AWS's own tools would use."""

    table: str
    bucket: str
    queue: str
    region: str = ""
    prefix: str = ""
    freed: str = ""
    """With ``retain``, copies of deleted blobs stay below `!freed/` until the bucket's lifecycle removes the copies."""


def parse_address(url: str) -> Address:
    """Return the address in `aws://NAME?bucket=…&queue=…&region=…&prefix=…&freed=…`.

    NAME is the table's name. It is also the default for bucket and queue. Raises Invalid for a path or a fragment, for
    an unknown or repeated part, and for a name that the service does not accept.
    """
    parts = split_url(url)
    given = dict(pairs := parse_qsl(parts.query, keep_blank_values=True))
    if parts.path.strip("/") or parts.fragment or len(given) < len(pairs) or given.keys() - MAY_NAME:
        raise Invalid(
            "the URL of a store on AWS must be aws://NAME?bucket=…&queue=…&region=…&prefix=…&freed=…", url=url
        )
    address = Address(**{"table": parts.netloc, "bucket": parts.netloc, "queue": parts.netloc, **given})
    for part, (shape, rule) in SHAPES.items():
        value = getattr(address, part)
        if not shape.fullmatch(value):
            raise Invalid(f"the {part} in the URL must be {rule}", url=url, **{part: value})
    return address


class AwsStore:
    """The index, the blobs and the queue at an address.

    The constructor sends no request to DynamoDB, S3 or SQS. But boto3 may request credentials, for example those of the
    machine's role. The constructor raises Invalid if the region or the credentials are missing.
    """

    def __init__(self, address: Address, clock: Clock, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()
        self._address = address
        self._clock = clock
        self._access = find_access(address.region)
        self._client = open_client(clock, access=self._access, meter=self.meter)
        self.index = HostedTurns(DynamoIndex(self._client, address.table), clock)
        self.blobs = open_object_blobs(
            f"s3://{address.bucket}/{address.prefix}",
            clock,
            access=self._access,
            meter=self.meter,
            retains_freed=bool(address.freed),
        )

    def open_queue(self) -> SqsQueue:
        """Find the queue and its dead-letter queue, and return a client of both.

        Raises Unavailable if either queue does not exist.
        """
        client = self._service("sqs")
        try:
            urls = find_queues(client, self._address.queue)
        except BaseException:
            client.close()
            raise
        return SqsQueue(client, *urls, self._clock, wait_seconds=QUEUE_WAIT_SECONDS, meter=self.meter)

    def create(self) -> list[str]:
        """Create the missing table, bucket and queues, and return their kinds and names, such as ``table plans``.

        A bucket without versioning gets the lifecycle and the versioning of `create_bucket`. If all resources are
        ready, `create` only reads them, so a role without the right to create can open an existing store. Several
        processes may call `create` at once. Raises Invalid. After Unavailable or OutcomeUnknown, call it again.
        """
        table, bucket, queue = self._address.table, self._address.bucket, self._address.queue
        made = []
        if not table_is_ready(self._client, table) and create_table(self._client, table):
            made.append(f"table {table}")
        with closing(self._service("s3", self._access.endpoint("s3"))) as client:
            if not bucket_is_ready(client, bucket) and create_bucket(client, bucket):
                made.append(f"bucket {bucket}")
        with closing(self._service("sqs")) as client:
            if missing := missing_queues(client, queue):
                create_queues(client, queue)
                made += [f"queue {name}" for name in missing]
        return made

    def close(self) -> None:
        """Close the connections of index and blobs. A queue from `open_queue` is closed by its caller."""
        self.blobs.close()
        self.index.close()

    def _service(self, name: str, endpoint: str = "") -> Any:
        return aws_client(name, self._access.session(), endpoint, RequestPolicy())


def open_bucket(url: str, clock: Clock) -> ObjectBlobs:
    """Return the blobs at ``s3://BUCKET/PREFIX``. Sends no request to S3.

    Raises Invalid for a name that S3 does not accept and for a URL with a query or a fragment. Raises Unavailable
    without credentials.
    """
    parts = split_url(url)
    for part, value in (("bucket", parts.netloc), ("prefix", parts.path.strip("/"))):
        shape, rule = SHAPES[part]
        if not shape.fullmatch(value) or parts.query or parts.fragment:
            raise Invalid(f"the {part} in the URL must be {rule}", url=url)
    return open_object_blobs(url, clock, access=find_access())


# The keys are the parts of an address. Each value is a pattern of the names that the service accepts, and the rule in
# words. A default name of the bucket or queue is the table's name, and must match the rules of S3 or SQS too. SQS
# accepts 80 characters, and `-dead.fifo` takes ten of these characters.
SHAPES: dict[str, tuple[re.Pattern[str], str]] = {
    "table": (re.compile(r"[A-Za-z0-9_.-]{3,255}"), "3 to 255 letters, digits, underscores, dots and hyphens"),
    "bucket": (re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"), "3 to 63 lower-case letters, digits, dots and hyphens"),
    "queue": (re.compile(r"[A-Za-z0-9_-]{1,70}"), "up to 70 letters, digits, underscores and hyphens"),
    "freed": (re.compile(r"(retain)?"), "`retain`, or omitted"),
    "region": (re.compile(r"[a-z0-9-]*"), "lower-case letters, digits and hyphens"),
    "prefix": (
        re.compile(r"([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?"),
        "a path of names of letters, digits, dots, underscores and hyphens",
    ),
}
