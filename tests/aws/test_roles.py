"""Each role of the template allows everything that its function does, and nothing that the function never does.

The emulator runs the functions of the deployed template. Proxies between the functions and the services pass only the
requests that the deployed policies allow.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from stratalog.aws.listeners import Connections, Listeners
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.keys import listeners_partition
from stratalog.limits import BODY_PART_BYTES
from stratalog.maintenance.collection import collect
from stratalog.protocol.live import SUBPROTOCOL
from stratalog.store import Store, open_store
from tests.aws.gateway_events import queue_event
from tests.aws.policies import LEADING_KEYS, Asked, Role
from tests.aws.template import STACK, TOKENS, Stack, deployed_stack
from tests.server.api import mutation
from tests.threads import until

KEYS = Path(__file__).parents[2] / "formats/golden/keys-v1.json"
FUNCTIONS = ("Api", "Processor", "Sockets", "Maintenance")
LARGE = "x" * 3_000_000
TABLE = f"arn:aws:dynamodb:us-east-1:000000000000:table/{STACK}"
# An example partition of each kind of item (formats/keys.md).
PARTITIONS: Mapping[str, str] = {
    kind: key[0] for kind, key in json.loads(KEYS.read_text())["keys"].items() if len(key) == 2
}
# Actions of Lambda itself under a function's role. Our code does not request them.
OF_LAMBDA = {"logs:CreateLogStream", "logs:PutLogEvents", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
# With this permission S3 answers "not found" for a missing key. Without it S3 answers "forbidden".
OF_S3 = {"s3:ListBucket"}
# Actions of Lambda under a function's role after a failed call.
OF_FAILURE = {"Maintenance": {"sqs:SendMessage"}}
# Actions that do not occur here, because they need much data or time by the services' own clocks. The processor needs
# its action for a document's second snapshot, after a thousand versions. Maintenance needs its actions to write a
# snapshot and an archive, and to delete blobs and deleted logs that are ten minutes old.
OF_AGE = {
    "Processor": {"dynamodb:ConditionCheckItem"},
    "Maintenance": {
        "dynamodb:ConditionCheckItem",
        "dynamodb:DeleteItem",
        "s3:DeleteObjectVersion",
        "s3:GetBucketVersioning",
        "s3:GetObject",
        "s3:ListBucketVersions",
        "s3:PutObject",
    },
}


class Later(SystemClock):
    """A clock that is an hour fast, so that all blobs are old."""

    def wall_ms(self) -> int:
        return super().wall_ms() + 3_600_000


class Guarded:
    """A stack whose functions reach the services only through the proxies of their roles."""

    def __init__(self, stack: Stack, roles: Mapping[str, Role], store: Store) -> None:
        self.stack = stack
        self.roles = roles
        self.store = store
        self.listeners = Listeners(store.environment, Connections(stack.stage_url("SocketsApi", "live")))
        self.http = httpx.Client(
            base_url=stack.stage_url("HttpApi", "$default") + "/v1/organisations/acme",
            headers={"authorization": f"Bearer {TOKENS['ann']}"},
            timeout=30,
        )

    def ask(self, method: str, path: str, **options: Any) -> int:
        """Send a request that must succeed, and return its status."""
        answer = self.http.request(method, path, **options)
        assert answer.is_success, (method, path, answer.text)
        return answer.status_code

    def push(self, *mutations: dict[str, Any]) -> int:
        """Push mutations of one group to the document `plan`."""
        origin = self.store.document("acme", "plan").origin
        body = {"group": "g", "mutations": mutations, "origin": origin}
        return self.ask("POST", "/documents/plan/push", json=body)

    def process(self, receives: int) -> int:
        """Process the queued messages with ``receives`` as their receive count. Return the number of failures."""
        client, url = self.stack.client("sqs"), self.stack.queue_url()
        received = client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )["Messages"]
        for message in received:
            message["Attributes"]["ApproximateReceiveCount"] = str(receives)
        failures = self.stack.invoke("Processor", queue_event(received, f"{STACK}.fifo"))["batchItemFailures"]
        if not failures and receives == 1:
            client.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])
        return len(failures)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with ExitStack() as ending, pytest.MonkeyPatch.context() as patch:
        stack = ending.enter_context(deployed_stack(tmp_path_factory.mktemp("roles"), Queued=""))
        roles = {name: ending.enter_context(Role(stack.url, stack.policy(name))) for name in FUNCTIONS}
        live = stack.stage_url("SocketsApi", "live")
        for name, role in roles.items():
            sockets = role.url + live.removeprefix(stack.url)
            variables = {"STRATALOG_SOCKETS": sockets, "STRATALOG_LIVE": "ws" + live.removeprefix("http")}
            stack.configure(name, AWS_ENDPOINT_URL=role.url, **variables)
        for name, value in stack.variables.items():
            patch.setenv(name, value)
        store = ending.enter_context(open_store(stack.output("Store"), create=False))
        guarded = Guarded(stack, roles, store)
        ending.callback(guarded.http.close)
        yield guarded


@pytest.fixture(scope="module")
def worked(guarded: Guarded) -> Guarded:
    """The stack after its functions have done all their work."""
    use_documents(guarded)
    use_logs_and_records(guarded)
    use_sockets(guarded)
    guarded.stack.configure("Api", STRATALOG_QUEUED="all")
    use_queue(guarded)
    guarded.stack.invoke("Maintenance", {"source": "aws.events"})
    collect_later(guarded)
    return guarded


def use_documents(guarded: Guarded) -> None:
    ask = guarded.ask
    ask("PUT", "/documents/plan")
    guarded.push(mutation("c", 1, key="notes/1", value="small"), mutation("c", 2, key="notes/2", value=LARGE))
    ask("GET", "/documents/plan/state")
    ask("GET", "/documents/plan/item", params={"key": "notes/2"})
    ask("POST", "/documents/plan/fork", json={"name": "copy"})
    ask("DELETE", "/documents/copy")


def use_logs_and_records(guarded: Guarded) -> None:
    ask = guarded.ask
    ask("PUT", "/logs/facts")
    ask("POST", "/logs/facts/append", json={"events": [{"type": "said", "data": LARGE}]})
    ask("GET", "/logs/facts/entries")
    ask("DELETE", "/logs/facts")
    packed = gzip.compress(b"0" * (BODY_PART_BYTES + 1))
    ask("PUT", "/records/report", content=packed, headers={"content-encoding": "gzip"})
    ask("PUT", "/records/note", content=b"short")
    ask("DELETE", "/records/note")
    ask("POST", "/records/note/undelete")


def use_sockets(guarded: Guarded) -> None:
    """Use a connection until the function closes it. Other connections end without a disconnect event."""
    guarded.ask("POST", "/documents/plan/pull", json={"group": "g"})
    guarded.listeners.join("gone", "acme", "plan", None)
    with connect(f"ws{guarded.stack.stage_url('SocketsApi', 'live')[4:]}", subprotocols=[SUBPROTOCOL]) as socket:
        socket.send(json.dumps({"type": "hello", "token": TOKENS["ann"], "document": "acme/plan"}))
        assert json.loads(socket.recv(20))["type"] == "ready"
        socket.send(json.dumps({"type": "presence", "state": {"cell": "A1"}}))
        assert json.loads(socket.recv(20))["type"] == "here"
        guarded.listeners.join("gone too", "acme", "plan", None)
        guarded.push(mutation("c", 3, key="notes/3", value="poked"))
        assert json.loads(socket.recv(20))["type"] == "poke"
        socket.send(json.dumps({"type": "hello", "token": "no token", "document": "acme/plan"}))
        # The emulator accepts the request to close the connection but does not close it.
        role = guarded.roles["Sockets"]
        until(lambda: any("/DELETE/" in request.resource for request in role.asked))
        guarded.listeners.join("gone at last", "acme", "plan", None)
    # At a disconnect the function notifies the other listeners once, and deletes the listeners whose connections are
    # gone. So "gone at last" must join before the disconnect.
    index = guarded.store.environment.index
    until(lambda: not list(index.query(listeners_partition("acme", "plan"))))


def use_queue(guarded: Guarded) -> None:
    """Queue and process a small push, a push that is too large for a message, and unreadable messages."""
    guarded.stack.source()
    guarded.listeners.join("gone as well", "acme", "plan", None)
    assert guarded.push(mutation("c", 4, key="notes/4", value="queued")) == 202
    assert guarded.process(receives=1) == 0
    assert guarded.push(mutation("c", 5, key="notes/5", value=random.Random(0).randbytes(900_000).hex())) == 202
    assert guarded.process(receives=2) == 0
    for receives, failures in ((1, 1), (11, 0)):
        guarded.store.queue.send(f"acme/nothing-{receives}", [b"\x01 not a push"])
        assert guarded.process(receives) == failures


def collect_later(guarded: Guarded) -> None:
    """Do what maintenance does an hour later, with its role, while the body of a push is still stored."""
    body = b"the body of a push"
    prefix = guarded.store.document("acme", "plan").log.record.prefix
    guarded.store.environment.blobs.put(f"acme/queue/{prefix.partition('/')[2]}/token/{sha256(body).hex()}", body)
    with pytest.MonkeyPatch.context() as patch:
        for name in guarded.stack.variables:
            if name.startswith("AWS_ENDPOINT_URL"):
                patch.setenv(name, guarded.roles["Maintenance"].url)
        with open_store(guarded.stack.output("Store"), create=False, clock=Later()) as store:
            collect(store.environment, "acme", dry_run=True, queue=lambda: store.queue)


def test_no_role_refuses_a_request_of_its_function(worked: Guarded) -> None:
    assert {name: role.denied for name, role in worked.roles.items() if role.denied} == {}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_may_do_nothing_that_its_function_never_does(name: str, worked: Guarded) -> None:
    role = worked.roles[name]
    assert allowed(role) - role.actions - OF_LAMBDA - OF_S3 <= OF_AGE.get(name, set()) | OF_FAILURE.get(name, set())


def test_only_maintenance_may_delete_log_items_and_bodies(worked: Guarded) -> None:
    prefix = worked.store.document("acme", "plan").log.record.prefix
    blob = f"arn:aws:s3:::{worked.stack.physical('Bucket')}/acme/plan@x/bodies/{'0' * 64}"
    deletions = [Asked(f"s3:{action}", blob) for action in ("DeleteObject", "DeleteObjectVersion")]
    protected = ("acme/plan", f"{prefix}/1", f"{prefix}/segments", f"{prefix}/snapshots", "!organisations")
    deletions += [Asked("dynamodb:DeleteItem", TABLE, partition) for partition in protected]
    deletions += [Asked("dynamodb:DeleteTable", TABLE), Asked("dynamodb:UpdateItem", TABLE, "acme/plan")]
    may = {name: [deletion for deletion in deletions if role.allows(deletion)] for name, role in worked.roles.items()}
    assert [name for name in FUNCTIONS if may[name]] == ["Maintenance"]
    assert {deletion.action for deletion in may["Maintenance"]} == {"dynamodb:DeleteItem", "s3:DeleteObjectVersion"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_role_may_delete_only_the_listed_kinds_of_items(name: str, worked: Guarded) -> None:
    """The test covers the kinds in the golden file of keys. That file has no listeners and no attempt records."""
    role = worked.roles[name]
    may = {
        kind for kind, partition in PARTITIONS.items() if role.allows(Asked("dynamodb:DeleteItem", TABLE, partition))
    }
    marks = {
        "Api": {"line under a name", "line of the directory of logs", "upload going on"},
        "Maintenance": set(PARTITIONS),
    }
    assert may == marks.get(name, set())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_may_delete_items_only_in_partitions_where_its_function_does(name: str, worked: Guarded) -> None:
    role = worked.roles[name]
    deleted = {request.leading_key or "" for request in role.asked if request.action == "dynamodb:DeleteItem"}
    unused = {pattern for pattern in patterns(role) if not any(fnmatchcase(key, pattern) for key in deleted)}
    assert unused == set()


def patterns(role: Role) -> set[str]:
    """Return the patterns of the partitions where a role may delete, or none if the role may delete everywhere."""
    conditions = (
        condition.get("Condition") for condition in role.statements if "dynamodb:DeleteItem" in condition["Action"]
    )
    return {
        pattern
        for condition in conditions
        if condition
        for pattern in condition["ForAllValues:StringLike"][LEADING_KEYS]
    }


def allowed(role: Role) -> set[str]:
    """Return the actions in a role's statements. Fail if an action contains a star."""
    actions_of_role = set()
    for statement in role.statements:
        actions = statement["Action"]
        actions_of_role |= {actions} if isinstance(actions, str) else set(actions)
    assert not any("*" in action for action in actions_of_role)
    return actions_of_role
