"""AWS on this machine, for one program: ``python -m stratalog.testing.aws_local COMMAND …``.

ministack serves DynamoDB and SQS, and SeaweedFS serves S3, all on loopback. When the program ends, the command deletes
the services' data. The program finds the services by environment variables, as it would find AWS. ``STRATALOG_STORE``
names a store on these services.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stratalog.testing.emulators import KEY, SECRET, Emulator, ministack, seaweed
from stratalog.testing.local_services import run_with_services

__all__ = ["aws_environment", "aws_local", "main"]

STORE = "aws://stratalog"
# The program does not get these variables of the user. The empty configuration has no profile, so boto3 would raise
# ProfileNotFound. A session token belongs to other keys.
USERS = {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"}


@contextmanager
def aws_local(folder: Path) -> Iterator[dict[str, str]]:
    """Run the services until the end of the block, with their files in ``folder``. Yield the variables for clients.

    Raises RuntimeError if a service is not installed or does not start.
    """
    with ministack(folder / "ministack") as services, seaweed(folder / "seaweed") as objects:
        yield aws_environment(services, objects)


def aws_environment(services: Emulator, objects: Emulator, dynamo: Emulator | None = None) -> dict[str, str]:
    """Return variables that make AWS's own tools use the emulators and ignore the user's configuration.

    ``services`` serves SQS and, unless ``dynamo`` is given, DynamoDB. ``objects`` serves S3.
    """
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": services.url,
        "AWS_ENDPOINT_URL_DYNAMODB": (dynamo or services).url,
        "AWS_ENDPOINT_URL_SQS": services.url,
        "AWS_ENDPOINT_URL_S3": objects.url,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the services and, with their variables, the command in ``arguments``. Return its exit code."""
    with tempfile.TemporaryDirectory(prefix="stratalog-aws-") as folder:
        services = aws_local(Path(folder))
        return run_with_services("aws_local", "DynamoDB, SQS and S3", services, STORE, arguments, without=USERS)


if __name__ == "__main__":
    sys.exit(main())
