"""Lost branches: clients continue after a restore from an older backup, or with a diverged copy of the store."""

from __future__ import annotations

import copy
from io import BytesIO
from typing import Any

import msgspec
import pytest

from stratalog.backends.memory import MemoryQueue
from stratalog.client import Client
from stratalog.documents import Document
from stratalog.errors import Collected, Forbidden
from stratalog.log import delete_log
from stratalog.log.retention import raise_floor_onto
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.document_import import import_document
from stratalog.protocol.sync import Clear, Cookie, Pull, Pulled, Push
from stratalog.store import Store
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from tests.client.helpers import InProcess
from tests.documents.helpers import World, put
from tests.server.helpers import Follower, pull_replicache


def backup(world: World) -> Any:
    """Return a copy of the index."""
    return copy.deepcopy(world.backend._partitions)


def restored(world: World, backup: Any) -> Document:
    """Restore the backup, and return the document as a newly started process opens it."""
    world.backend._partitions = copy.deepcopy(backup)
    return world.open()


def change(document: Document, follower: Follower, *ids: int, client: str = "ada") -> list[str]:
    outcomes = push(document, Push(follower.group, [put(f"k{id}", id, client=client, id=id) for id in ids])).outcomes
    return [outcome.status for outcome in outcomes]


def is_complete(pulled: Pulled) -> bool:
    return Clear() in pulled.patch


def test_after_a_restore_a_pull_reports_the_lost_numbers_and_the_client_continues() -> None:
    world = World()
    document, follower = world.create(), Follower()
    change(document, follower, 1, 2)
    follower.pull(document)
    older = backup(world)
    change(document, follower, 3, 4)
    before = follower.pull(document)
    document = restored(world, older)
    assert change(document, follower, 5) == ["gap"]
    answer = follower.pull(document)
    assert is_complete(answer)
    assert (answer.last, answer.lost) == ({"ada": 4}, {"ada": [(2, 4)]})
    assert follower.content == {"k1": 1, "k2": 2}
    assert answer.cookie.order > before.cookie.order
    assert change(document, follower, 4, 5) == ["seen", "applied"]
    after = follower.pull(document)
    assert (is_complete(after), after.lost, follower.content["k5"]) == (False, {}, 5)
    assert after.cookie.order == answer.cookie.order + 1


def test_a_cookie_with_the_same_version_and_another_hash_gets_the_full_state() -> None:
    world = World()
    document, follower, other = world.create(), Follower(), Follower("other")
    older = backup(world)
    change(document, follower, 1)
    follower.pull(document)
    document = restored(world, older)
    push(document, Push("other", [put("theirs", 1, client="bob", id=1)]))
    answer = follower.pull(document)
    assert is_complete(answer)
    assert follower.content == {"theirs": 1}
    assert answer.last == {"ada": 1}
    assert other.pull(document).last == {"bob": 1}


def test_a_restore_without_lost_entries_gives_an_empty_patch() -> None:
    world = World()
    document, follower = world.create(), Follower()
    change(document, follower, 1)
    follower.pull(document)
    document = restored(world, backup(world))
    version = document.version
    assert follower.pull(document).patch == []
    assert document.version == version


def test_a_pull_binds_a_client_that_the_backup_does_not_contain() -> None:
    world = World()
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1, 2)
    follower.pull(document)
    document = restored(world, older)
    assert change(document, follower, 3) == ["unknown-client"]
    assert follower.pull(document).last == {"ada": 2}
    assert change(document, follower, 3) == ["applied"]
    assert push(document, Push("g", [put("x", 1, id=4)]), "mallory").outcomes[0].status == "wrong-group"


def test_a_late_repetition_of_an_old_pull_hides_no_lost_mutation() -> None:
    world = World()
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1, 2)
    late = Pull("g", follower.pull(document).cookie)
    change(document, follower, 3)
    follower.pull(document)
    document = restored(world, older)
    assert pull(document, late).lost == {"ada": [(0, 2)]}
    assert follower.pull(document).lost == {"ada": [(0, 3)]}


def test_mutations_committed_between_two_losses_are_not_reported_as_lost() -> None:
    world = World()
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1)
    late = Pull("g", follower.pull(document).cookie)
    change(document, follower, 2, 3)
    follower.pull(document)
    document = restored(world, older)
    pull(document, late)
    change(document, follower, 2)
    assert follower.pull(document).lost == {"ada": [(0, 1), (2, 3)]}
    assert world.open().state().lost("ada") == ((0, 1), (2, 3))


def test_orders_grow_with_each_restore_of_the_same_backup() -> None:
    world = World()
    document, follower = world.create(), Follower()
    older = backup(world)
    orders = []
    for id in (1, 2, 3):
        change(document, follower, id)
        orders.append(follower.pull(document).cookie.order)
        document = restored(world, older)
        orders.append(follower.pull(document).cookie.order)
    assert orders == sorted(set(orders))
    assert change(document, follower, 4) == ["applied"]


def test_after_a_restore_each_tab_gets_an_order_above_the_lost_branch() -> None:
    world = World()
    document, near, far = world.create(), Follower(), Follower()
    older = backup(world)
    change(document, near, 1)
    near.pull(document)
    change(document, near, 2, 3)
    change(document, near, 4)
    highest = far.pull(document).cookie.order
    document = restored(world, older)
    assert near.pull(document).cookie.order > highest
    version = document.version
    assert far.pull(document).cookie.order > highest
    assert document.version == version + 1, "the pull did not commit the higher numbers of this tab"


def test_after_two_restores_a_pull_gets_an_order_above_both_lost_branches() -> None:
    world = World()
    document, near, far = world.create(), Follower(), Follower()
    older = backup(world)
    change(document, near, 1)
    near.pull(document)
    change(document, near, 2)
    far.pull(document)
    document = restored(world, older)
    far.pull(document)
    change(document, near, 3)
    highest = far.pull(document).cookie.order
    world.clock.sleep(1)
    document = restored(world, older)
    # The cookie of `near` comes from the first branch. So the cookie does not show the orders of the second branch.
    assert near.pull(document).cookie.order > highest, "the second branch already had this order"


def test_lost_numbers_survive_snapshots_and_are_removed_with_their_client() -> None:
    world = World(snapshot_entries_interval=1)
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1, 2)
    cookie = follower.pull(document).cookie
    document = restored(world, older)
    follower.pull(document)
    again = world.open()
    assert follower.cookie is not None
    assert again.state().order == follower.cookie.order
    assert pull(again, Pull("g", cookie)).lost == {"ada": [(0, 2)]}
    again.collect_clients(["ada"], ["g"])
    assert again.state().lost("ada") == ()


def test_a_floor_above_the_floor_of_the_state_hides_no_lost_branch() -> None:
    """The simulation `branches`, seed 70003188, found this fault: the server raised no numbers and reported no loss."""
    world = World(segment_entries_target=1, snapshot_entries_interval=1)
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1, 2)
    follower.pull(document)
    document = restored(world, older)
    push(document, Push("other", [put("a", 1, client="bob", id=1)]))
    push(document, Push("other", [put("a", 2, client="bob", id=2)]))
    document.snapshot()
    raise_floor_onto(document.log, 2, document._snapshots.take_base)
    assert world.open().state().floor == 0
    answer = follower.pull(world.open())
    assert (answer.last, answer.lost) == ({"ada": 2}, {"ada": [(0, 2)]})


def test_a_pull_raises_collected_if_its_group_is_collected_meanwhile() -> None:
    """The simulation `sync`, seed 202058382, found this fault: the answer omitted the group's clients."""
    world = World()
    document, follower = world.create(), Follower()
    change(document, follower, 1)
    cookie = follower.pull(document).cookie

    def collect() -> bool:
        world.open().collect_clients(["ada"], ["g"])
        return True

    lost = msgspec.structs.replace(cookie, hash="00")
    with pytest.raises(Collected):
        pull(document, Pull("g", lost), may_write=collect)


def test_a_pull_without_the_right_to_write_commits_no_numbers() -> None:
    world = World()
    document, follower = world.create(), Follower()
    older = backup(world)
    change(document, follower, 1)
    cookie = follower.pull(document).cookie
    document = restored(world, older)
    answer = pull(document, Pull("g", cookie), may_write=lambda: False)
    assert (is_complete(answer), answer.last, document.version) == (True, {}, 0)
    assert answer.cookie.order > cookie.order
    assert answer.cookie.last == {"ada": 1}, "the cookie lost the number, so no later pull can commit it"


def test_a_forged_cookie_raises_no_number_of_another_principal_s_client() -> None:
    world = World()
    document, follower = world.create(), Follower()
    change(document, follower, 1)
    cookie = follower.pull(document).cookie
    forged = msgspec.structs.replace(cookie, hash="00", last={"ada": 9})
    with pytest.raises(Forbidden):
        pull(document, Pull("g", forged), "mallory")
    moved = msgspec.structs.replace(forged, group="h")
    assert pull(document, Pull("h", moved), "mallory").last == {}
    assert document.last_mutation("ada") == 1


def test_a_cookie_with_a_very_high_order_changes_no_order_of_another_group() -> None:
    document = World().create()
    far = 2**52
    cookie = Cookie(far, document.origin, 5, "00", "g")
    assert pull(document, Pull("g", cookie)).cookie.order == far + 1
    assert pull(document, Pull("other")).cookie.order == 0


def test_clients_continue_with_a_document_restored_from_an_export() -> None:
    world = World()
    document, follower = world.create("plan"), Follower()
    change(document, follower, 1, 2)
    file = BytesIO()
    export_document(document, file)
    change(document, follower, 3)
    cookie = follower.pull(document).cookie
    delete_log(document.log)
    restored = import_document(Store(world.environment, MemoryQueue(world.clock)), "acme", "plan", file)
    assert change(restored, follower, 4) == ["gap"]
    answer = follower.pull(restored)
    assert (answer.cookie.origin, answer.lost) == (cookie.origin, {"ada": [(2, 3)]})
    assert push(restored, Push("g", [put("k4", 4, id=4)], cookie.origin)).outcomes[0].status == "applied"


def test_a_fork_takes_no_client_numbers_from_a_cookie_of_its_source() -> None:
    """A fork has the effects of its source's clients, but no record of these clients. So the pull raises no numbers."""
    world = World()
    document, follower = world.create("plan"), Follower()
    change(document, follower, 1)
    cookie = follower.pull(document).cookie
    fork = document.fork("copy")
    answer = pull(fork, Pull("g", cookie))
    assert (is_complete(answer), answer.last, answer.cookie.last) == (True, {}, {})
    assert answer.cookie.origin != cookie.origin


def test_after_a_restore_replicache_gets_its_old_numbers_and_no_reset() -> None:
    world = World()
    document = world.create()
    older = backup(world)
    push(document, Push("g", [put("a", 1, id=1), put("a", 2, id=2)]))
    cookie = pull_replicache(document, {"pullVersion": 1, "clientGroupID": "g", "cookie": None}).body["cookie"]
    document = restored(world, older)
    body = {"pullVersion": 1, "clientGroupID": "g", "cookie": msgspec.to_builtins(cookie)}
    answer = pull_replicache(document, body)
    assert answer.status == 200
    assert answer.body["lastMutationIDChanges"] == {"ada": 2}
    assert answer.body["patch"] == [Clear()]
    assert answer.body["cookie"].order > cookie.order


def test_a_python_client_reports_lost_mutations_and_applies_pending_mutations_once() -> None:
    world = World()
    document = world.create()
    transport = InProcess(document)
    with Client(transport) as client:
        client.mutate("put", {"key": "kept", "value": 1})
        client.sync()
        older = backup(world)
        gone = client.mutate("inc", {"key": "n"})
        client.sync()
        document = restored(world, older)
        transport.servers = (document,)
        pending = client.mutate("inc", {"key": "m"})
        client.sync()
        assert (gone.status, pending.status) == ("lost", "applied")
        assert [(failure.name, failure.args, failure.status) for failure in client.failures()] == [
            ("inc", {"key": "n"}, "lost")
        ]
        assert dict(client.scan()) == dict(document.scan()) == {"kept": 1, "m": 1}
        client.sync()
        assert len(client.failures()) == 1


def test_a_client_that_moves_between_two_copies_agrees_with_each_copy() -> None:
    world, other = World(), World()
    document = world.create()
    transport = InProcess(document)
    with Client(transport) as client:
        client.mutate("append", {"key": "list", "item": "both"})
        client.sync()
        other.blobs = world.blobs
        copied = restored(other, backup(world))
        copies = {"one": document, "other": copied}
        for name in ("one", "other", "one", "other"):
            transport.servers = (copies[name],)
            client.mutate("append", {"key": f"only/{name}", "item": 1})
            client.sync()
            assert dict(client.scan()) == dict(copies[name].scan())
        assert dict(document.scan())["only/one"] == dict(copied.scan())["only/other"] == [1, 1]
        assert {failure.status for failure in client.failures()} == {"lost"}


def test_a_client_reports_only_the_loss_of_its_last_confirmed_mutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client remembers its last `CONFIRMED_MAX` numbers and does not report the loss of earlier mutations."""
    monkeypatch.setattr("stratalog.client.local.CONFIRMED_MAX", 2)
    world = World()
    document = world.create()
    older = backup(world)
    transport = InProcess(document)
    with Client(transport) as client:
        for number in range(4):
            client.mutate("put", {"key": f"k{number}", "value": number})
            client.sync()
        transport.servers = (restored(world, older),)
        client.sync()
        assert [failure.args["key"] for failure in client.failures()] == ["k2", "k3"]


def test_a_second_group_from_the_same_lost_branch_changes_no_orders() -> None:
    world = World()
    document, first, second = world.create(), Follower("first"), Follower("second")
    older = backup(world)
    change(document, first, 1)
    change(document, second, 1, client="bob")
    first.pull(document)
    second.pull(document)
    document = restored(world, older)
    first.pull(document)
    orders = document.state().orders
    change(document, first, 2)
    assert second.pull(document).lost == {"bob": [(0, 1)]}
    assert (document.version, document.state().orders) == (3, orders)
