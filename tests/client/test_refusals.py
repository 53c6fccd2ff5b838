"""A server has no record of the client, or refuses its requests. No mutation is applied twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from stratalog.client import Client, PendingMutation, Unreached
from stratalog.client.local import UNKNOWN, UNREPORTED
from stratalog.client.push_decision import Waiting
from stratalog.codec import encode
from stratalog.documents import Document
from stratalog.errors import Corrupt, Forbidden, LimitExceeded, OutcomeUnknown, QuotaExceeded, StratalogError
from stratalog.limits import (
    ANSWER_BYTES_PER_SECOND_MIN,
    REQUEST_BODY_BYTES_PER_SECOND_MIN,
    REQUEST_BODY_SECONDS_MAX,
)
from stratalog.log.admission import Admission
from stratalog.log.usage import Quotas
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.protocol.sync import Cookie, Pull, Pulled, Push, Pushed, PutKey
from stratalog.testing.clock import ManualClock
from tests.client.helpers import InProcess, memory_environment, new_document

Forget = Callable[[Document, Client], None]


def identity(client: Client) -> tuple[str, str]:
    with client.held() as local:
        return local.client, local.group


def collect(document: Document, client: Client) -> None:
    """Collect the client on the server, and leave a collected marker of its group."""
    who, group = identity(client)
    document.collect_clients([who], [group])


def forget(document: Document, client: Client) -> None:
    """Collect the client on the server, without a collected marker."""
    document.collect_clients([identity(client)[0]])


def items(document: Document) -> list[object]:
    """Return the appended items in the document."""
    return list(document.get("list", []))


def append(client: Client, item: object) -> PendingMutation:
    return client.mutate("append", {"key": "list", "item": item})


class Scripted(InProcess):
    """A server whose next answers the test can replace."""

    def __init__(self, *servers: Document) -> None:
        super().__init__(*servers)
        self.pushed: list[Callable[[Push], Pushed]] = []
        self.pulled: list[Callable[[Pull], Pulled]] = []

    def serve_push(self, request: Push) -> Pushed:
        return self.pushed.pop(0)(request) if self.pushed else super().serve_push(request)

    def serve_pull(self, request: Pull) -> Pulled:
        return self.pulled.pop(0)(request) if self.pulled else super().serve_pull(request)


@pytest.fixture
def document() -> Document:
    return new_document()


@pytest.fixture
def transport(document: Document) -> Scripted:
    return Scripted(document)


@pytest.fixture
def client(transport: Scripted) -> Client:
    """A client that has synchronised once, with one applied mutation."""
    client = Client(transport)
    append(client, "first")
    client.sync()
    return client


each_way_to_forget = pytest.mark.parametrize("way", [collect, forget])


@each_way_to_forget
def test_unsent_mutations_of_a_forgotten_client_are_applied_under_a_new_client_id(
    client: Client, document: Document, way: Forget
) -> None:
    before = identity(client)
    way(document, client)
    handles = [append(client, 2), append(client, 3)]
    client.sync()
    client.sync()
    assert [handle.status for handle in handles] == ["applied", "applied"]
    assert items(document) == client.get("list") == ["first", 2, 3]
    assert not set(before) & set(identity(client))


@each_way_to_forget
def test_sent_mutations_of_a_forgotten_client_become_unknown_and_are_not_resent(
    client: Client, document: Document, way: Forget
) -> None:
    lost, later = append(client, "lost"), append(client, "later")
    transport_of(client).faults = ["lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    way(document, client)
    unsent = append(client, "unsent")
    client.sync()
    client.sync()
    assert [handle.status for handle in (lost, later, unsent)] == ["unknown", "unknown", "applied"]
    assert items(document) == client.get("list") == ["first", "lost", "later", "unsent"]
    assert [(failure.args["item"], failure.reason) for failure in client.failures()] == [
        ("lost", UNKNOWN),
        ("later", UNKNOWN),
    ]


def test_a_new_client_id_forgets_the_confirmed_numbers_of_the_former_id(client: Client, document: Document) -> None:
    """The confirmed numbers belong to the former client id. The new client id uses the same numbers again."""
    append(client, "answered, and not pulled")
    transport_of(client).faults = ["", "lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    collect(document, client)
    client.sync()
    with client.held() as local:
        assert list(local._file.read("SELECT id FROM confirmed")) == []


def test_confirmed_mutations_are_remembered_up_to_16_mib_of_arguments_in_utf_8(client: Client) -> None:
    """The browser client counts the same bytes (`tests/web/confirmed.test.js`)."""
    large = encode({"key": "list", "item": "漢" * (2 * 1024 * 1024)})  # 6 MiB
    with client.held() as local:
        with local._file.transaction() as connection:
            for number in (2, 3, 4):
                local._remember(connection, Waiting(number, number, "append", large))
        assert list(local._file.read("SELECT id FROM confirmed")) == [(3,), (4,)]


def test_a_push_fits_the_time_that_a_server_gives_a_slow_network(client: Client, transport: Scripted) -> None:
    for length, count in [(50_000, 20), (500, 450)]:
        handles = [client.mutate("put", {"key": f"k/{number}", "value": "x" * length}) for number in range(count)]
        client.sync()
        assert {handle.status for handle in handles} == {"applied"}
    for request in transport.pushes:
        size = len(msgspec.msgpack.encode(request))
        allowed_seconds = REQUEST_BODY_SECONDS_MAX + size / REQUEST_BODY_BYTES_PER_SECOND_MIN
        assert size / ANSWER_BYTES_PER_SECOND_MIN <= 0.8 * allowed_seconds  # a fifth of the time is left


def test_a_client_collected_while_offline_loses_no_unsent_mutation(client: Client, document: Document) -> None:
    append(client, 2)
    transport_of(client).faults = ["unreached"]
    with pytest.raises(Unreached):
        client.sync()
    collect(document, client)
    client.sync()
    client.sync()
    assert items(document) == ["first", 2]
    assert client.failures() == []


def test_a_mutation_answered_before_the_client_was_collected_is_not_resent(client: Client, document: Document) -> None:
    """The server answers the push, the answer to the pull is lost, and then the server collects the client."""
    answered = append(client, 2)
    transport_of(client).faults = ["", "lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    collect(document, client)
    client.sync()
    client.sync()
    assert answered.status == "applied"
    assert items(document) == client.get("list") == ["first", 2]


def test_a_pending_mutation_is_applied_under_a_new_client_id_after_a_change_of_the_principal(
    client: Client, document: Document
) -> None:
    before = identity(client)
    handle = append(client, 2)
    transport_of(client).owner = "bob"
    client.sync()
    client.sync()
    assert (handle.status, items(document)) == ("applied", ["first", 2])
    assert not set(before) & set(identity(client))


def test_a_client_leaves_a_group_that_belongs_to_another_principal(
    client: Client, document: Document, transport: Scripted
) -> None:
    before = identity(client)

    def forbid(request: Pull) -> Pulled:
        raise Forbidden("the group belongs to another principal", value=request.group)

    transport.pulled = [forbid]
    with pytest.raises(Forbidden):
        client.sync()
    assert not set(before) & set(identity(client))
    client.sync()


@pytest.mark.parametrize(("faults", "status"), [(["", "", "lost-answer"], "applied"), (["", "lost-answer"], "unknown")])
def test_a_restarted_client_with_pending_mutations_leaves_the_group_of_another_principal(
    document: Document, transport: Scripted, tmp_path: Path, faults: list[str], status: str
) -> None:
    """The former principal's commit is newer than the client's cookie, so that the first pull is forbidden."""
    path = str(tmp_path / "plan.sqlite")
    transport.faults = faults
    with Client(transport, path) as client:
        append(client, "sent")
        with pytest.raises(OutcomeUnknown):
            client.sync()
    transport.owner = "bob"
    with Client(transport, path) as client:
        before = identity(client)
        (sent,) = client.pending()
        unsent = append(client, "unsent")
        with pytest.raises(Forbidden):
            client.sync()
        assert not set(before) & set(identity(client))
        client.sync()
        assert [sent.status, unsent.status] == [status, "applied"]
        assert [failure.args["item"] for failure in client.failures()] == ["sent"] * (status == "unknown")
    assert items(document) == ["sent", "unsent"]


def test_a_client_without_pending_mutations_keeps_its_group_while_its_token_is_refused(
    client: Client, transport: Scripted
) -> None:
    """In another group the client could not report the confirmed mutations that a restored server has lost."""
    before = identity(client)

    def refuse(request: Pull) -> Pulled:
        raise Forbidden("the token has expired")

    transport.pulled = [refuse]
    with pytest.raises(Forbidden):
        client.sync()
    assert identity(client) == before


def test_a_temporary_refusal_does_not_change_the_group_of_a_client(
    client: Client, document: Document, transport: Scripted
) -> None:
    """In another group the client could not send again a mutation whose answer was lost."""
    before = identity(client)
    lost = append(client, "lost")
    transport.faults = ["lost-request"]
    with pytest.raises(OutcomeUnknown):
        client.sync()

    def forbid(request: object) -> NoReturn:
        raise Forbidden("the token has expired")

    transport.pushed, transport.pulled = [forbid], [forbid]
    with pytest.raises(Forbidden):
        client.sync()
    assert identity(client) == before
    client.sync()
    assert (lost.status, items(document)) == ("applied", ["first", "lost"])


def test_pending_mutations_are_applied_to_a_recreated_document(client: Client, transport: Scripted) -> None:
    replaced = new_document(memory_environment(seed=1))
    replaced.mutate("put", {"key": "other", "value": 1})
    handle = append(client, "mine")
    transport.servers = (replaced,)
    client.sync()
    client.sync()
    assert handle.status == "applied"
    assert dict(client.scan()) == replaced.at().to_dict() == {"list": ["mine"], "other": 1}


def test_pending_mutations_are_applied_by_a_server_that_lost_confirmed_mutations(
    client: Client, transport: Scripted
) -> None:
    """The server asks for mutation 2. The client no longer has this mutation, because the server had confirmed it."""
    for number in (2, 3):
        append(client, number)
        client.sync()
    with client.held() as local:
        who = local.client
    handles = [append(client, 4), append(client, 5)]
    transport.pushed = [lambda request: _gap(request, 2)]
    client.sync()
    assert [handle.status for handle in handles] == ["applied", "applied"]
    assert identity(client)[0] == who


def test_a_client_takes_a_new_id_if_the_server_reports_the_gap_again_after_a_pull(
    client: Client, transport: Scripted
) -> None:
    for number in (2, 3):
        append(client, number)
        client.sync()
    who, handle = identity(client)[0], append(client, 4)
    transport.pushed = [lambda request: _gap(request, 2)] * 2
    client.sync()
    assert handle.status == "applied"
    assert identity(client)[0] != who


def test_a_client_resends_mutations_from_the_number_that_the_server_expects(
    client: Client, document: Document, transport: Scripted
) -> None:
    """The server queued a mutation, but then lost it. At the next push the server asks for the mutation again."""
    lost = append(client, 2)
    transport.pushed = [lambda request: Pushed([], queued=True)]
    client.sync()
    assert lost.status == "queued"
    handle = append(client, 3)
    client.sync()
    assert [handle.status for handle in (lost, handle)] == ["applied", "applied"]
    assert [len(push.mutations) for push in transport.pushes[1:]] == [1, 1, 2]
    assert items(document) == ["first", 2, 3]


def test_a_mutation_that_stays_queued_for_too_long_is_sent_again(document: Document, transport: Scripted) -> None:
    clock = ManualClock()
    client = Client(transport, clock=clock)
    handle = append(client, 1)
    transport.pushed = [lambda request: Pushed([], queued=True)]
    client.sync()
    client.sync()
    assert (handle.status, len(transport.pushes)) == ("queued", 1)
    clock.sleep(31)
    client.sync()
    assert (handle.status, items(document)) == ("applied", [1])


def test_a_queued_mutation_is_sent_again_after_a_restart(document: Document, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    transport = Scripted(document)
    with Client(transport, path) as client:
        append(client, 1)
        transport.pushed = [lambda request: Pushed([], queued=True)]
        client.sync()
    with Client(transport, path) as client:
        client.sync()
    assert items(document) == [1]


def test_an_answered_mutation_that_no_pull_shows_is_sent_again(
    client: Client, document: Document, transport: Scripted
) -> None:
    """The server answered before it made the mutation durable, and then lost the mutation."""
    handle = append(client, 2)
    transport.pushed = [_applied]
    client.sync()
    assert handle.status == "pending"
    client.sync()
    assert (handle.status, items(document)) == ("applied", ["first", 2])


def test_only_the_mutation_that_is_too_large_for_the_server_is_rejected(
    client: Client, document: Document, transport: Scripted
) -> None:
    def only_small(request: Push) -> Pushed:
        if any(mutation.args["item"] == "large" for mutation in request.mutations):
            raise LimitExceeded("the body is too large", limit=1)
        return InProcess.serve_push(transport, request)

    transport.pushed = [only_small] * 20
    handles = [append(client, item) for item in (2, "large", 3, 4)]
    client.sync()
    assert [handle.status for handle in handles] == ["applied", "rejected", "applied", "applied"]
    assert handles[1].reason == "the body is too large limit=1"
    assert items(document) == ["first", 2, 3, 4]


@pytest.mark.parametrize("error", [LimitExceeded("no"), StratalogError("fault")])
def test_a_sync_cycle_ends_if_the_server_refuses_every_push(
    client: Client, transport: Scripted, error: StratalogError
) -> None:
    def fail(request: Push) -> Pushed:
        raise error

    transport.pushed = [fail] * 50
    handles = [append(client, item) for item in range(3)]
    for _ in range(3):
        try:
            client.sync()
        except StratalogError:
            assert not isinstance(error, LimitExceeded)
    assert {handle.status for handle in handles} == {"rejected" if isinstance(error, LimitExceeded) else "pending"}


def test_a_copy_of_a_file_becomes_another_client(document: Document, tmp_path: Path) -> None:
    original, copy = str(tmp_path / "original.sqlite"), str(tmp_path / "copy.sqlite")
    with Client(InProcess(document), original) as client:
        append(client, 1)
        client.sync()
    shutil.copy(original, copy)
    with Client(InProcess(document), original) as first, Client(InProcess(document), copy) as second:
        append(first, "one")
        append(second, "other")
        append(second, "another")
        for client in (first, second, second, first):
            client.sync()
        assert items(document) == first.get("list") == second.get("list") == [1, "one", "other", "another"]
        assert identity(first) != identity(second)


def test_a_copied_file_takes_a_new_client_id_after_a_pull_with_mutations_of_the_original(
    document: Document, tmp_path: Path
) -> None:
    original, copy = str(tmp_path / "original.sqlite"), str(tmp_path / "copy.sqlite")
    with Client(InProcess(document), original) as client:
        append(client, 1)
        client.sync()
    shutil.copy(original, copy)
    with Client(InProcess(document), original) as first, Client(InProcess(document), copy) as second:
        append(first, "one")
        first.sync()
        second.sync()
        assert identity(first) != identity(second)


def test_a_copied_file_that_pushes_a_used_number_is_detected_by_the_payload(document: Document, tmp_path: Path) -> None:
    original, copy = str(tmp_path / "original.sqlite"), str(tmp_path / "copy.sqlite")
    with Client(InProcess(document), original) as client:
        append(client, 1)
        client.sync()
    shutil.copy(original, copy)
    with Client(InProcess(document), original) as first, Client(InProcess(document), copy) as second:
        for client in (first, second):
            client.sync()
        append(first, "one")
        append(second, "other")
        for client in (first, second, first):
            client.sync()
        assert items(document) == first.get("list") == second.get("list") == [1, "one", "other"]


def test_a_pull_older_than_the_state_changes_nothing(client: Client, document: Document) -> None:
    for value in (1, 2, 3):
        document.mutate("put", {"key": "k", "value": value})
        client.sync()
    transport_of(client).faults = ["stale"]
    client.sync()
    assert client.get("k") == 3


def test_an_answer_to_another_cookie_changes_nothing(client: Client) -> None:
    with client.held() as local:
        cookie = local.cookie
        assert cookie is not None
        later = Cookie(cookie.order + 1, cookie.origin, cookie.version + 1)
        assert local.apply(None, Pulled(later, {}, [PutKey("k", 1)])) == []
        assert (local.cookie, local.load("k")) == (cookie, None)


def test_a_pull_of_another_document_without_its_state_is_refused(client: Client, transport: Scripted) -> None:
    shown = dict(client.scan())
    transport.pulled = [lambda request: Pulled(Cookie(99, "elsewhere", 3), {}, [PutKey("k", 1)])]
    with pytest.raises(Corrupt):
        client.sync()
    assert dict(client.scan()) == shown


def test_an_answer_to_another_push_is_refused(client: Client, document: Document, transport: Scripted) -> None:
    transport.pushed = [lambda request: Pushed([Outcome(client="someone", id=1, status="applied")])]
    append(client, 2)
    with pytest.raises(Corrupt):
        client.sync()
    client.sync()
    assert items(document) == ["first", 2]


def test_a_mutation_whose_rejection_is_no_longer_reported_becomes_unknown(
    client: Client, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `REJECTIONS_SHOWN_VERSIONS` versions the server no longer reports the rejection."""
    monkeypatch.setattr("stratalog.client.local.REJECTIONS_SHOWN_VERSIONS", 5)
    monkeypatch.setattr("stratalog.sync.pull.REJECTIONS_SHOWN_VERSIONS", 5)
    client.mutate("put", {"key": "k", "value": 1})
    client.sync()
    document.mutate("put", {"key": "k", "value": "text"})
    handle = client.mutate("inc", {"key": "k"})
    transport_of(client).faults = ["lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    for number in range(6):
        document.mutate("put", {"key": "n", "value": number})
    client.sync()
    assert (handle.status, handle.reason) == ("unknown", UNREPORTED)


def transport_of(client: Client) -> InProcess:
    transport = client._transport
    assert isinstance(transport, InProcess)
    return transport


def _gap(request: Push, expected: int) -> Pushed:
    return Pushed(
        [
            Outcome(client=mutation.client, id=mutation.id, status="gap", expected=expected)
            for mutation in request.mutations
        ]
    )


def _applied(request: Push) -> Pushed:
    return Pushed(
        [Outcome(client=mutation.client, id=mutation.id, status="applied", version=9) for mutation in request.mutations]
    )


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("met", [True, False])
def test_a_copied_document_without_the_client_gets_no_mutation_twice(
    met: bool, restarted: bool, tmp_path: Path
) -> None:
    """The copy has the name and the content of the document, but no record of its clients."""
    document, path = new_document(), str(tmp_path / "plan.sqlite")
    transport = Scripted(document)
    client = Client(transport, path)
    if met:
        append(client, "first")
    client.sync()
    lost = append(client, "lost")
    transport.faults = ["lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    copy = new_document(memory_environment(seed=1))
    for key, value in document.at().scan():
        copy.mutate("put", {"key": key, "value": value})
    unsent = append(client, "unsent")
    transport.servers = (copy,)
    if restarted:
        client.close()
        client = Client(transport, path)
        lost, unsent = client.pending()
    for _ in range(3):
        client.sync()
    assert (lost.status, unsent.status) == ("unknown", "applied")
    assert items(copy) == client.get("list") == [*(["first"] if met else []), "lost", "unsent"]


@pytest.mark.parametrize(("server_value", "status"), [(1, "unknown"), ("text", "rejected")])
def test_a_mutation_confirmed_just_before_another_document_takes_the_name_is_not_called_applied(
    client: Client, document: Document, transport: Scripted, server_value: Any, status: str
) -> None:
    later = new_document(memory_environment(seed=1))
    document.mutate("put", {"key": "n", "value": server_value})
    handle = client.mutate("inc", {"key": "n"})

    def serve_from_the_later_document(request: Pull) -> Pulled:
        transport.servers = (later,)
        return transport.serve_pull(request)

    transport.pulled = [serve_from_the_later_document]
    client.sync()
    assert (handle.status, client.get("n")) == (status, None)
    assert [failure.status for failure in client.failures()] == [status]


def test_a_copied_document_with_the_client_gets_the_unsent_mutations(document: Document, transport: Scripted) -> None:
    client = Client(transport)
    client.sync()
    lost = append(client, "lost")
    transport.faults = ["lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    who, group = identity(client)
    copy = new_document(memory_environment(seed=1))
    copy.apply([Mutation(client=who, id=1, name="append", args=lost.args)], group=group)
    unsent = append(client, "unsent")
    transport.servers = (copy,)
    for _ in range(3):
        client.sync()
    assert (lost.status, unsent.status) == ("unknown", "applied")
    assert items(copy) == client.get("list") == ["lost", "unsent"]


def test_after_a_failed_first_pull_the_next_sync_cycle_pulls_before_it_pushes(document: Document) -> None:
    """A first pull reports no rejections.

    A client that pushes before its first pull, and loses the answer, would never learn of a rejection.
    """

    class LosesItsFirstAnswer(InProcess):
        def serve_push(self, request: Push) -> Pushed:
            pushed = super().serve_push(request)
            if len(self.pushes) == 1:
                raise OutcomeUnknown("the answer was lost")
            return pushed

    document.mutate("put", {"key": "k", "value": "text"})
    transport = LosesItsFirstAnswer(document)
    client = Client(transport)
    handle = client.mutate("inc", {"key": "k"})
    transport.faults = ["unreached"]
    with pytest.raises(Unreached):
        client.sync()
    with pytest.raises(OutcomeUnknown):
        client.sync()
    client.sync()
    assert (handle.status, handle.reason is not None and handle.reason != UNREPORTED) == ("rejected", True)


def test_a_mutation_over_the_client_quota_stays_pending_until_the_quota_is_raised() -> None:
    document = new_document()
    environment = document.log.environment
    quotas = {"acme": Quotas(clients_max=1)}
    environment.admission = Admission(environment.index, environment.clock, quotas.__getitem__)
    first, second = Client(InProcess(document)), Client(InProcess(document))
    append(first, "first")
    first.sync()
    append(second, "second")
    with pytest.raises(QuotaExceeded):
        second.sync()
    assert (items(document), second.get("list")) == (["first"], ["first", "second"])
    quotas["acme"] = Quotas(clients_max=2)
    second.sync()
    assert items(document) == ["first", "second"]
