"""The cold start of the queue's function: the imported modules, and the requests of the first message."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from stratalog.costs.workload import Trial
from stratalog.protocol.messages import Mutation
from tests.processes import environment, run

OPENED = """
import json, sys
import stratalog.aws.processor
from stratalog.store import open_store
open_store("aws://stratalog", create=False)
print(json.dumps(sorted(sys.modules)))
"""
SLOW = {"anyio", "asyncio", "boto3", "botocore", "email", "litestar", "multiprocessing", "sqlite3", "urllib3", "yaml"}
"""Packages that no message needs. The import of each package takes more than 5 ms of CPU."""


def test_the_function_imports_no_library_that_a_message_does_not_need() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}
    no_files = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    imported = json.loads(run([sys.executable, "-c", OPENED], env=environment() | keys | no_files).stdout)
    assert "obstore" in imported
    assert SLOW.intersection(name.partition(".")[0] for name in imported) == set()
    assert "stratalog.maintenance.store_pass" not in imported


def test_the_first_message_takes_five_requests_and_a_read_of_each_chunk_that_it_needs() -> None:
    """The message needs its client's binding, which is in a leaf of the state's tree.

    The snapshot contains the chunk above this leaf.
    """
    trial = Trial()
    document = trial.store.create("acme", "plan")
    document.apply([_put(number, number + 1) for number in range(200)])
    document.snapshot()
    document.apply([_put(number, number + 201) for number in range(100)])
    cold = trial.reopened()
    before = trial.meter.read()
    (outcome,) = cold.document("acme", "plan").apply([_put(1, 301)])
    assert outcome.status == "applied"
    assert _requests(trial.meter.read(), before) == {"GetItem": 1, "Query": 3, "GetObject": 1, "PutItem": 1}


def _put(number: int, id: int) -> Mutation:
    value = {"title": "x" * 200}
    return Mutation(client="ada", id=id, name="put", args={"key": f"items/{number:03d}", "value": value})


def _requests(after: Mapping[tuple[str, str], float], before: Mapping[tuple[str, str], float]) -> dict[str, float]:
    counts = {name: count - before.get((name, unit), 0) for (name, unit), count in after.items() if unit == "requests"}
    return {name: count for name, count in counts.items() if count}
