"""AWS on this machine, for one program: ``python -m stratalog.testing.aws_local COMMAND …``.

ministack serves DynamoDB and SQS, and SeaweedFS serves S3, all on loopback. Their data are deleted when the program
ends. The program finds the services by environment variables, as it would find AWS. ``STRATALOG_STORE`` names a store
on these services.
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
# These variables would direct the program to the user's own account, even if the variables below are set.
USERS = {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"}


@contextmanager
def aws_local(folder: Path) -> Iterator[dict[str, str]]:
    """Run the services until the end of the block, with their files in ``folder``. Yield the variables for clients.

    Raises RuntimeError where a service is not installed or does not start.
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
    """Run the command to its end and return its exit code.

    On Ctrl+C the terminal also signals the command, so this function only waits for its end. On SIGTERM and SIGHUP the
    function terminates the command.
    """
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
