"""Pull: a group gets the changes since its cookie, up to one version. Only the group's principal may pull for it."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.documents import Document
from stratalog.documents import changes as changes_module
from stratalog.errors import (
    Collected,
    Corrupt,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    StratalogError,
    Unavailable,
)
from stratalog.keys import number, snapshots_partition
from stratalog.limits import COOKIE_CLIENTS_MAX, INTEGER_MAX
from stratalog.log import delete_log
from stratalog.ports.index import Delete
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pull, Pulled, Push, PutKey, Rejection
from stratalog.sync import pull as pull_module
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from tests.documents.helpers import World, inc, large, put
from tests.server.helpers import Follower


def delete(key: str, client: str = "ada", id: int = 0) -> Mutation:
    return Mutation(client=client, id=id, name="del", args={"key": key})


def pulled(document: Document, cookie: Cookie | None = None, group: str = "g", owner: str = "") -> Pulled:
    return pull(document, Pull(group, cookie), owner)


def cookie_of(document: Document, order: int, version: int, group: str = "g", **last: int) -> Cookie:
    hash = document.log.hash_at(version).hex() if version <= document.version else "of a lost branch"
    return Cookie(order, document.origin, version, hash, group, last)


def push_mutation(document: Document, *mutations: Mutation, group: str = "g", owner: str = "") -> None:
    push(document, Push(group, list(mutations)), owner)


def test_the_first_pull_brings_everything() -> None:
    document = World().create()
    push_mutation(document, put("name", "Plan", id=1), put("c/a", large(), id=2))
    answer = pulled(document)
    assert answer == Pulled(
        cookie_of(document, 1, 1, ada=2), {"ada": 2}, [Clear(), PutKey("c/a", large()), PutKey("name", "Plan")], []
    )


def test_the_first_pull_of_an_empty_document_returns_only_a_clear() -> None:
    document = World().create()
    assert pulled(document) == Pulled(cookie_of(document, 0, 0), {}, [Clear()])


def test_a_pull_without_new_versions_returns_the_same_cookie_and_no_patch() -> None:
    document = World().create()
    push_mutation(document, inc(id=1))
    cookie = pulled(document).cookie
    assert pulled(document, cookie) == Pulled(cookie, {}, [])


def test_a_patch_holds_the_values_at_the_head() -> None:
    document = World().create()
    push_mutation(document, put("a", 1, id=1), put("b", 1, id=2))
    cookie = pulled(document).cookie
    push_mutation(document, put("a", 2, id=3))
    push_mutation(document, put("a", 3, id=4), delete("b", id=5), put("c", 1, id=6))
    push_mutation(document, delete("c", id=7))
    assert pulled(document, cookie).patch == [PutKey("a", 3), DeleteKey("b"), DeleteKey("c")]


def test_a_rejection_moves_the_cookie_and_is_reported_only_to_its_group() -> None:
    document = World().create()
    cookie = pulled(document).cookie
    push_mutation(document, inc(by="x", id=1))  # type: ignore[arg-type]
    answer = pulled(document, cookie)
    assert answer.cookie == cookie_of(document, 1, 1, ada=1)
    assert (answer.patch, answer.last) == ([], {"ada": 1})
    assert answer.rejected == [Rejection("ada", 1, "inc needs numbers: key=n")]
    assert pulled(document, cookie, group="other").rejected == []


def test_rejections_of_old_versions_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_module, "REJECTIONS_SHOWN_VERSIONS", 3)
    document = World().create()
    start = pulled(document).cookie
    push_mutation(document, inc(by="x", id=1))  # type: ignore[arg-type]
    for id in (2, 3):
        push_mutation(document, inc(id=id))
    assert [rejection.id for rejection in pulled(document, start).rejected] == [1]
    push_mutation(document, inc(id=4))
    assert pulled(document, start).rejected == []


def test_an_entry_without_mutations_moves_the_cookie_too() -> None:
    document = World().create()
    push_mutation(document, inc(id=1), group="gone")
    cookie = pulled(document).cookie
    document.collect_clients(["ada"], ["gone"])
    assert pulled(document, cookie) == Pulled(cookie_of(document, 2, 2), {}, [])


def test_a_pull_returns_only_clients_of_the_group_with_new_numbers() -> None:
    document = World().create()
    push_mutation(document, inc(client="tab-1", id=1), inc(client="tab-2", id=1))
    push_mutation(document, inc(client="phone", id=1), group="other")
    cookie = pulled(document).cookie
    push_mutation(document, inc(client="tab-2", id=2))
    push_mutation(document, inc(client="phone", id=2), group="other")
    assert pulled(document, cookie).last == {"tab-2": 2}
    assert pulled(document).last == {"tab-1": 1, "tab-2": 2}
    assert pulled(document, cookie, group="other").last == {"phone": 2}


def test_a_group_with_the_cookie_of_another_group_gets_its_own_clients() -> None:
    document = World().create()
    push_mutation(document, inc(client="tab-1", id=1))
    inherited = pulled(document).cookie
    push_mutation(document, inc(client="tab-2", id=1), group="forked")
    answer = pulled(document, inherited, group="forked")
    assert answer.last == {"tab-2": 1}
    assert answer.cookie.order > inherited.order


def test_a_local_client_belongs_to_no_group_that_can_pull() -> None:
    document = World().create()
    document.mutate("put", {"key": "a", "value": 1})
    assert pulled(document).last == {}
    with pytest.raises(Invalid):
        pulled(document, group="")


def test_the_order_grows_by_the_number_of_versions_since_the_cookie() -> None:
    document = World().create()
    push_mutation(document, inc(id=1))
    push_mutation(document, inc(id=2))
    assert pulled(document, cookie_of(document, 70, 1)).cookie == cookie_of(document, 71, 2, ada=2)


def test_a_cookie_of_another_document_is_answered_with_everything_under_a_higher_order() -> None:
    world = World()
    first = world.create()
    push_mutation(first, put("a", 1, id=1))
    push_mutation(first, put("a", 2, id=2))
    old = pulled(first).cookie
    delete_log(first.log)
    second = world.create()
    push_mutation(second, put("b", 1, client="bob", id=1))
    answer = pulled(second, old)
    assert answer == Pulled(cookie_of(second, 3, 1, bob=1), {"bob": 1}, [Clear(), PutKey("b", 1)])
    push_mutation(second, put("b", 2, client="bob", id=2))
    assert pulled(second, answer.cookie).cookie == cookie_of(second, 4, 2, bob=2)


def test_the_order_of_a_cookie_is_never_below_its_version() -> None:
    document = World().create()
    for id in range(1, 6):
        push_mutation(document, inc(id=id))
    assert pulled(document, Cookie(2, "elsewhere", 2)).cookie == cookie_of(document, 5, 5, ada=5)


def test_a_cookie_of_a_forgotten_version_is_answered_with_everything() -> None:
    document = World(segment_entries_target=1, snapshot_entries_interval=1).create()
    for id in range(1, 6):
        push_mutation(document, put(f"k{id}", id, id=id))
    old = cookie_of(document, 2, 2)
    document.forget_below(4)
    answer = pulled(document, old)
    assert answer.patch[0] == Clear()
    assert answer.last == {"ada": 5}
    assert answer.cookie == cookie_of(document, 7, 7, ada=5)


def test_a_version_forgotten_while_it_is_compared_is_answered_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    document = World().create()
    push_mutation(document, put("a", 1, id=1))

    def forget(*args: Any) -> None:
        raise NotFound("gone meanwhile")

    monkeypatch.setattr(pull_module, "changes_since", forget)
    assert pulled(document, cookie_of(document, 0, 0)).patch == [Clear(), PutKey("a", 1)]


def test_a_pull_from_a_fork_with_its_source_s_cookie_gets_everything_and_no_clients() -> None:
    document = World().create()
    push_mutation(document, put("a", 1, id=1))
    cookie = pulled(document).cookie
    fork = document.fork("copy")
    answer = pulled(fork, cookie)
    assert (answer.patch, answer.last) == ([Clear(), PutKey("a", 1)], {})
    assert answer.cookie.order > cookie.order
    assert pulled(fork, cookie_of(fork, 3, 0)).patch[0] == Clear()


def test_a_pull_of_a_collected_group_raises_collected_for_any_cookie() -> None:
    document = World().create()
    push_mutation(document, inc(id=1))
    cookie = pulled(document).cookie
    document.collect_clients(["ada"], ["g"])
    for asked in (None, cookie, Cookie(3, "elsewhere", 3)):
        with pytest.raises(Collected):
            pulled(document, asked)
    assert pulled(document, cookie, group="new").cookie.version == 2


def test_a_group_of_another_owner_is_refused() -> None:
    document = World().create()
    start = pulled(document).cookie
    push_mutation(document, inc(id=1), owner="eve")
    for cookie in (None, start):
        with pytest.raises(Forbidden) as caught:
            pulled(document, cookie, owner="mallory")
        assert caught.value.details == {"value": "g"}, "the error does not name the group"
    assert pulled(document, start, owner="eve").last == {"ada": 1}


@pytest.mark.parametrize(
    "cookie",
    [
        Cookie(-1, "i", 1),
        Cookie(1, "i", -1),
        Cookie(INTEGER_MAX + 1, "i", 1),
        Cookie(1.5, "i", 1),  # type: ignore[arg-type]
        Cookie(1, "i", 1, last={"c": -1}),
        Cookie(1, "i", 1, last={"": 1}),
        Cookie(1, "i", 1, last={"replay/x": 1}),
        Cookie(INTEGER_MAX, "i", 1),
    ],
)
def test_an_invalid_cookie_is_refused(cookie: Cookie) -> None:
    with pytest.raises(Invalid):
        pulled(World().create(), cookie)


@pytest.mark.parametrize(
    "cookie",
    [
        Cookie(1, "i", 1, group="g" * 200),
        Cookie(1, "i", 1, last={str(number): 1 for number in range(COOKIE_CLIENTS_MAX + 1)}),
    ],
)
def test_a_cookie_over_a_limit_is_refused(cookie: Cookie) -> None:
    with pytest.raises(LimitExceeded):
        pulled(World().create(), cookie)


def test_reserved_keys_are_never_in_a_patch() -> None:
    document = World(snapshot_entries_interval=1).create()
    start = pulled(document).cookie
    push_mutation(document, put("c/a", 1, id=1), put("b", 1, id=2))
    push_mutation(document, delete("c/a", id=3))
    document.collect_clients([], ["other"])
    keys = [
        operation.key
        for cookie in (None, start)
        for operation in pulled(document, cookie).patch
        if not isinstance(operation, Clear)
    ]
    assert sorted(keys) == ["b", "b", "c/a"]


def test_a_deleted_document_is_not_found() -> None:
    world = World()
    document = world.create()
    delete_log(world.open().log)
    with pytest.raises(NotFound):
        pulled(document)


def test_a_pull_just_after_a_push_makes_a_single_call_to_the_store() -> None:
    world = World()
    document = world.create()
    push_mutation(document, inc(id=1))
    cookie = pulled(document).cookie
    push_mutation(document, inc(client="bob", id=1), group="other")
    calls = world.watched().calls
    assert pulled(document, cookie).patch == [PutKey("n", 2)]
    assert len(calls) == 1


@pytest.mark.parametrize(("is_collected", "error"), [(True, Unavailable), (False, Corrupt)])
def test_a_pull_that_misses_a_chunk_of_the_clients_is_unavailable_or_reports_damage(
    is_collected: bool, error: type[StratalogError]
) -> None:
    world = World()
    document = world.create()
    for position in range(600):
        push_mutation(document, inc(client=f"tab-{position:04}", id=1))
    document.snapshot()
    other = world.open()
    assert not other.state().group_collected("g")
    if is_collected:
        world.backend.commit([Delete(snapshots_partition(document.log.record.prefix), number(document.version))])
    for key in world.blob_keys("/chunks/"):
        stat = world.blobs.stat(key)
        assert stat is not None
        world.blobs.delete(key, stat.stamp)
    with pytest.raises(error):
        pulled(other)


def grown(world: World, versions: int) -> Document:
    document = world.create()
    for id in range(1, versions + 1):
        push_mutation(document, put(f"c/{id % 7}", id, id=id), inc(client=f"tab-{id % 3}", id=(id + 2) // 3))
    return document


@pytest.mark.parametrize("read_max", [0, 200], ids=["by trees", "by entries"])
def test_comparing_trees_and_reading_entries_find_the_same_changes(
    read_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "ENTRIES_READ_MAX", read_max)
    document = grown(World(snapshot_entries_interval=10), 35)
    for version in range(35):
        answer = pulled(document, cookie_of(document, version, version))
        changed = {f"c/{id % 7}" for id in range(version + 1, 36)} | {"n"}
        assert {operation.key for operation in answer.patch if not isinstance(operation, Clear)} == changed
        moved = {f"tab-{id % 3}" for id in range(version + 1, 36)} | {"ada"}
        assert set(answer.last) == moved


@pytest.mark.parametrize("read_max", [0, 200], ids=["by trees", "by entries"])
def test_a_pull_reports_a_number_that_was_raised_after_its_cookie(
    read_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "ENTRIES_READ_MAX", read_max)
    document = World().create()
    push_mutation(document, inc(id=1))
    cookie = pulled(document).cookie
    document.resume("g", "", {"ada": 5})
    document.snapshot()
    assert pulled(document, cookie).last == {"ada": 5}


def test_a_large_gap_is_compared_without_reading_its_entries() -> None:
    world = World(snapshot_entries_interval=10)
    document = grown(world, 25)
    follower = Follower()
    follower.pull(document)
    for id in range(26, 26 + changes_module.ENTRIES_READ_MAX + 20):
        push_mutation(document, put("c/0", id, id=id))
    fresh = world.open()
    calls = world.watched().calls
    answer = follower.pull(fresh)
    assert answer.patch == [PutKey("c/0", 245)]
    assert follower.content == fresh.at().to_dict()
    assert answer.last == {"ada": 245}
    assert len([name for name, _ in calls if name in ("get", "query")]) < 20
