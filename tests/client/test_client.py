"""The state, the file and the reports of a client whose server works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.client import Client
from stratalog.documents import Document
from stratalog.errors import Closed, Forbidden, Invalid, LimitExceeded, OutcomeUnknown
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Rejected
from stratalog.protocol.sync import Push, Pushed
from tests.client.helpers import InProcess, new_document


@pytest.fixture
def document() -> Document:
    return new_document()


@pytest.fixture
def client(document: Document) -> Client:
    return Client(InProcess(document))


def transport_of(client: Client) -> InProcess:
    transport = client._transport
    assert isinstance(transport, InProcess)
    return transport


def test_a_mutation_is_visible_immediately(client: Client) -> None:
    handle = client.mutate("put", {"key": "cells/A1", "value": 7})
    assert client.get("cells/A1") == 7
    assert (handle.status, handle.settled) == ("pending", False)


def test_a_closed_client_can_be_printed(client: Client) -> None:
    assert repr(client).startswith("<Client ")
    client.close()
    assert repr(client) == "<Client closed>"


def test_an_undo_of_something_else_than_a_mutation_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match="mutation must be of type PendingMutation, not str"):
        client.undo("put")  # type: ignore[arg-type]


def test_a_client_reads_like_a_mapping(client: Client) -> None:
    assert (bool(client), len(client), list(client)) == (True, 0, [])
    client.mutate("put", {"key": "cells/A1", "value": 7})
    assert client["cells/A1"] == 7
    assert ("cells/A1" in client, "cells/A2" in client, 7 in client) == (True, False, False)
    assert {key: client[key] for key in client} == {"cells/A1": 7}
    assert len(client) == 1
    with pytest.raises(KeyError, match="cells/A2"):
        client["cells/A2"]
    for make in (dict, lambda mapping: {**mapping}):
        with pytest.raises(TypeError, match=r"dict\(client\.scan\(\)\)"):
            make(client)
    assert dict(client.scan()) == {"cells/A1": 7}


def test_a_sync_cycle_applies_pending_mutations(client: Client, document: Document) -> None:
    handle = client.mutate("put", {"key": "cells/A1", "value": 7})
    client.sync()
    assert document.get("cells/A1") == 7
    assert (handle.status, handle.wait(0)) == ("applied", "applied")
    assert client.pending() == []


def test_a_sync_cycle_without_pending_mutations_pushes_nothing(client: Client) -> None:
    client.sync()
    assert transport_of(client).pushes == []


def test_changes_of_other_clients_are_visible_after_a_sync_cycle(client: Client, document: Document) -> None:
    document.mutate("put", {"key": "cells/A1", "value": 7})
    client.sync()
    assert dict(client.scan()) == {"cells/A1": 7}
    document.mutate("del", {"key": "cells/A1"})
    client.sync()
    assert "cells/A1" not in client


def test_pending_mutations_run_again_on_the_pulled_state(client: Client, document: Document) -> None:
    document.mutate("put", {"key": "count", "value": 10})
    client.sync()
    client.mutate("inc", {"key": "count"})
    document.mutate("put", {"key": "count", "value": 100})
    transport_of(client).faults = ["lost-request"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    assert client.get("count") == 11
    client.sync()
    assert client.get("count") == 101


def test_a_rejection_is_reported_with_its_reason(client: Client, document: Document) -> None:
    client.mutate("put", {"key": "count", "value": 1})
    client.sync()
    document.mutate("put", {"key": "count", "value": "text"})
    handle = client.mutate("inc", {"key": "count"})
    client.sync()
    assert (handle.status, handle.reason) == ("rejected", "inc needs numbers: key=count")
    assert client.get("count") == "text"
    assert [(failure.name, failure.args, failure.reason) for failure in client.failures()] == [
        ("inc", {"key": "count"}, "inc needs numbers: key=count")
    ]


def test_a_pull_reports_a_rejection_whose_push_response_was_lost(client: Client, document: Document) -> None:
    client.mutate("put", {"key": "count", "value": 1})
    client.sync()
    document.mutate("put", {"key": "count", "value": "text"})
    handle = client.mutate("inc", {"key": "count"})
    transport_of(client).faults = ["lost-answer"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    assert handle.status == "pending"
    client.sync()
    assert handle.status == "rejected"


def test_a_pending_mutation_that_fails_after_a_pull_has_a_predicted_rejection(
    client: Client, document: Document
) -> None:
    client.mutate("put", {"key": "count", "value": 1})
    client.sync()
    document.mutate("put", {"key": "count", "value": "text"})
    handle = client.mutate("inc", {"key": "count"})
    assert handle.predicted_rejection is None
    transport_of(client).faults = ["lost-request"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    client._sync_cycle._pull()
    assert (handle.status, handle.predicted_rejection) == ("pending", "inc needs numbers: key=count")


def test_a_mutation_rejected_on_the_optimistic_state_does_not_become_pending(client: Client) -> None:
    client.mutate("put", {"key": "count", "value": "text"})
    with pytest.raises(Rejected):
        client.mutate("inc", {"key": "count"})
    assert len(client.pending()) == 1


@pytest.mark.parametrize(("name", "args"), [("no such", {}), ("put", {"key": "k", "value": float("nan")})])
def test_an_unknown_mutator_or_an_argument_that_cannot_be_encoded_is_refused(
    client: Client, name: str, args: object
) -> None:
    with pytest.raises(Invalid):
        client.mutate(name, args)
    assert client.pending() == []


@pytest.mark.parametrize("mutators", [{"add": 5}, [lambda draft, args: None]])
def test_mutators_that_cannot_be_called_are_refused_and_make_no_file(
    document: Document, tmp_path: Path, mutators: Any
) -> None:
    with pytest.raises(TypeError, match="mutators"):
        Client(InProcess(document), tmp_path / "client.sqlite", mutators=mutators)
    assert [*tmp_path.iterdir()] == []


def test_a_mutator_that_changes_its_arguments_does_not_change_the_pending_mutation() -> None:
    def greedy(draft: Draft, args: dict[str, object]) -> None:
        draft.put("taken", args.pop("value"))

    document = new_document(mutators={**BUILT_IN_MUTATORS, "greedy": greedy})
    client = Client(InProcess(document), mutators={"greedy": greedy})
    handle = client.mutate("greedy", {"value": 1})
    document.mutate("put", {"key": "k", "value": 1})
    transport_of(client).faults = ["", "lost-request"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    assert (client.get("taken"), handle.predicted_rejection) == (1, None)
    client.sync()
    assert (handle.status, handle.args) == ("applied", {"value": 1})


def test_too_many_pending_mutations_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.client.local.PENDING_MUTATIONS_MAX", 1)
    client.mutate("inc", {"key": "count"})
    with pytest.raises(LimitExceeded):
        client.mutate("inc", {"key": "count"})
    assert client.get("count") == 1


def test_pending_mutations_beyond_the_batch_limit_are_sent_in_several_pushes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.client.sync_cycle.MUTATIONS_PER_BATCH_MAX", 2)
    for number in range(5):
        client.mutate("append", {"key": "list", "item": number})
    client.sync()
    assert [len(push.mutations) for push in transport_of(client).pushes] == [2, 2, 1]
    assert client.get("list") == [0, 1, 2, 3, 4]


def test_a_list_and_a_scan_include_pending_changes_in_key_order(client: Client, document: Document) -> None:
    document.mutate("put", {"key": "b/2", "value": 2})
    document.mutate("put", {"key": "b/4", "value": 4})
    client.sync()
    client.mutate("put", {"key": "b/3", "value": 3})
    client.mutate("del", {"key": "b/4"})
    client.mutate("put", {"key": "c", "value": 0})
    assert list(client.list("b/")) == ["b/2", "b/3"]
    assert list(client.scan("b/")) == [("b/2", 2), ("b/3", 3)]


def test_a_subscriber_is_notified_of_changed_keys_under_its_prefix(client: Client, document: Document) -> None:
    heard: list[list[str]] = []
    stop = client.subscribe(heard.append, "cells/")
    client.mutate("put", {"key": "other", "value": 1})
    client.mutate("put", {"key": "cells/B", "value": 1})
    document.mutate("put", {"key": "cells/A", "value": 1})
    client.sync()
    stop()
    client.mutate("put", {"key": "cells/C", "value": 1})
    assert heard == [["cells/B"], ["cells/A"]]


def test_a_subscriber_is_notified_when_a_pending_change_is_rejected(client: Client, document: Document) -> None:
    client.mutate("put", {"key": "count", "value": 1})
    client.sync()
    document.mutate("put", {"key": "count", "value": "text"})
    client.mutate("inc", {"key": "count"})
    heard: list[list[str]] = []
    client.subscribe(heard.append)
    client.sync()
    assert heard == [["count"]]


def test_a_failing_subscriber_does_not_affect_other_subscribers(client: Client) -> None:
    heard: list[list[str]] = []
    client.subscribe(lambda keys: [][0])
    client.subscribe(heard.append)
    client.mutate("put", {"key": "k", "value": 1})
    assert heard == [["k"]]


def test_a_subscriber_may_mutate_but_not_synchronise_the_client(client: Client, document: Document) -> None:
    failures: list[Exception] = []

    def on_change(keys: list[str]) -> None:
        if keys == ["from/elsewhere"]:
            client.mutate("put", {"key": "answer", "value": 1})
            try:
                client.sync()
            except Invalid as exc:
                failures.append(exc)

    client.subscribe(on_change)
    document.mutate("put", {"key": "from/elsewhere", "value": 1})
    client.sync()
    assert client.get("answer") == 1
    assert len(failures) == 1


def test_two_clients_of_one_document_agree(document: Document) -> None:
    first, second = Client(InProcess(document)), Client(InProcess(document))
    first.mutate("patch", {"key": "card", "merge": {"title": "Plan"}})
    second.mutate("patch", {"key": "card", "merge": {"done": True}})
    for client in (first, second, first):
        client.sync()
    assert first.get("card") == second.get("card") == {"title": "Plan", "done": True}


def test_a_closed_client_raises_closed(client: Client) -> None:
    client.close()
    client.close()
    for use in (lambda: client.get("k"), lambda: client.mutate("inc", {"key": "k"}), client.sync, client.start):
        with pytest.raises(Closed):
            use()


def test_state_and_pending_mutations_survive_a_restart(document: Document, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    with Client(InProcess(document), path) as client:
        client.mutate("put", {"key": "a", "value": 1})
        client.sync()
        client.mutate("put", {"key": "b", "value": 2})
    with Client(InProcess(document), path) as client:
        assert dict(client.scan()) == {"a": 1, "b": 2}
        (handle,) = client.pending()
        client.sync()
        assert handle.status == "applied"
    assert document.at().to_dict() == {"a": 1, "b": 2}


def test_a_pending_mutation_whose_mutator_is_gone_is_still_sent(document: Document, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    with Client(InProcess(document), path) as client:
        client.mutate("put", {"key": "a", "value": 1})
    with Client(InProcess(document), path, mutators={"inc": BUILT_IN_MUTATORS["inc"]}) as client:
        (handle,) = client.pending()
        assert handle.predicted_rejection == "Invalid: no such mutator mutator='put' known='inc'"
        client.sync()
        assert (handle.status, client.get("a")) == ("applied", 1)


def test_a_client_whose_pushes_are_forbidden_still_pulls_changes(document: Document) -> None:
    class ReadOnly(InProcess):
        def serve_push(self, request: Push) -> Pushed:
            raise Forbidden("the token may only read")

    client = Client(ReadOnly(document))
    handle = client.mutate("put", {"key": "mine", "value": 1})
    document.mutate("put", {"key": "theirs", "value": 2})
    for _ in range(2):
        with pytest.raises(Forbidden):
            client.sync()
        document.mutate("inc", {"key": "theirs"})
    assert (client.get("theirs"), handle.status) == (3, "pending")


def test_a_push_that_is_too_large_is_made_smaller_and_later_pushes_grow_again() -> None:
    sizes: list[int] = []

    class Narrow(InProcess):
        """A server that refuses pushes of more than five mutations, until it has accepted a push."""

        def serve_push(self, request: Push) -> Pushed:
            if len(request.mutations) > 5 and sizes == []:
                raise LimitExceeded("too many mutations at once")
            sizes.append(len(request.mutations))
            return super().serve_push(request)

    client = Client(Narrow(new_document()))
    for number in range(40):
        client.mutate("put", {"key": f"k{number}", "value": number})
    client.sync()
    assert sizes == [5, 10, 20, 5]
