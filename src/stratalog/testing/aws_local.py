"""AWS on this machine, for one program: ``python -m stratalog.testing.aws_local COMMAND …``.

DynamoDB and SQS are ministack's, S3 is SeaweedFS, both on loopback; what they hold is gone when the program has ended.
The program finds them as it would find AWS, by environment variables, and a store there in ``STRATALOG_STORE``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from stratalog.testing.emulators import KEY, SECRET, Emulator, ministack, seaweed

__all__ = ["aws_environment", "aws_local", "main"]

STORE = "aws://stratalog"
USAGE = 2
# What would lead to an account of the user's in spite of the rest.
USERS = {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"}


@contextmanager
def aws_local(folder: Path) -> Iterator[dict[str, str]]:
    """The services, started on ``folder`` and ended when the block is left; the variables that lead to them."""
    with ministack(folder / "ministack") as services, seaweed(folder / "seaweed") as objects:
        yield aws_environment(services, objects)


def aws_environment(services: Emulator, objects: Emulator, dynamo: Emulator | None = None) -> dict[str, str]:
    """The variables that AWS's own tools read, so that they find the emulators and nothing of the user's.

    DynamoDB is that of ``services``, unless another is given.
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
    """Run a command beside the services; its exit code."""
    command = sys.argv[1:] if arguments is None else arguments
    if not command:
        print("usage: python -m stratalog.testing.aws_local COMMAND …", file=sys.stderr)
        return USAGE
    ended = "DynamoDB, SQS and S3 have ended, and what they held is gone"
    with tempfile.TemporaryDirectory(prefix="stratalog-aws-") as folder:
        before = {number: signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            print("starting DynamoDB, SQS and S3 on this machine …", file=sys.stderr)
            with aws_local(Path(folder)) as settings:
                return _run(command, {**_without_users(os.environ), "STRATALOG_STORE": STORE, **settings})
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            print(ended, file=sys.stderr)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Ctrl+C in a terminal reaches the command too, which ends in its own time; any other end is passed on to it."""
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
            except SystemExit:
                process.terminate()
                process.wait()
                raise


def _ended(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _without_users(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in USERS}


if __name__ == "__main__":
    sys.exit(main())
