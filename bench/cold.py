"""The cold start of the queue's function: the CPU time of a new process until it can settle its first message.

The other side is a minimal handler that only makes boto3's clients of the same three services.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable

from bench.figures import Measured
from bench.workplace import Workplace

__all__ = ["MEASURES"]

OURS = """
import stratalog.aws.processor
from stratalog.store import open_store
open_store("aws://stratalog", create=False)
"""
THEIRS = """
import boto3
session = boto3.Session()
for service in ("dynamodb", "s3", "sqs"):
    session.client(service)
"""
CPU = "\nimport time\nprint(time.process_time())"
ROUNDS = 15
LAMBDA = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def cold_start(work: Workplace) -> Measured:
    """Measure both sides in turn. The first round of a side writes its bytecode, and does not count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= LAMBDA | {"PYTHONPYCACHEPREFIX": str(work.fresh()), "PYTHONDONTWRITEBYTECODE": ""}
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(min(ROUNDS, work.scale.rounds) + 1):
        for program, times in zip((OURS, THEIRS), spent, strict=True):
            milliseconds = cpu_ms(program, environment)
            if turn:
                times.append(milliseconds)
    return Measured(statistics.median(spent[0]), statistics.median(spent[1]))


def cpu_ms(program: str, environment: dict[str, str]) -> float:
    """Return the CPU time of a new process that runs the program, in milliseconds."""
    command = [sys.executable, "-c", program + CPU]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout) * 1000


MEASURES: dict[str, Callable[[Workplace], Measured]] = {"cold-start": cold_start}
