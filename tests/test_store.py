"""A store has a URL, a directory of documents, and one handle of each document for all threads."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stratalog
from stratalog import folders
from stratalog import store as opening
from stratalog.backends import files, sqlite, turnstile
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.errors import StorageFull, Unavailable
from stratalog.log import Environment, delete_log
from stratalog.ports.queue import Queue
from stratalog.testing.clock import ManualClock
from stratalog.testing.disk import Disk, DiskWeather, SimulatedMachine
from stratalog.testing.scheduler import Scheduler
from tests.processes import run
from tests.threads import run_together


@pytest.fixture(params=["memory:", "folder", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    url = request.getfixturevalue("postgres") if request.param == "postgres" else request.param
    with stratalog.open(tmp_path / "data" if url == "folder" else url) as opened:
        yield opened


def test_a_document_is_found_again_under_its_id(store: stratalog.Store) -> None:
    store.create("acme", "budget").mutate("put", {"key": "name", "value": "Budget"})
    assert store.document("acme", "budget").get("name") == "Budget"


def test_a_document_has_a_single_handle_in_a_process(store: stratalog.Store) -> None:
    created = store.create("acme", "budget")
    assert store.document("acme", "budget") is created


def test_a_recreated_document_is_another_incarnation_and_empty(store: stratalog.Store) -> None:
    first = store.create("acme", "budget")
    first.mutate("put", {"key": "name", "value": "Budget"})
    delete_log(first.log)
    second = store.create("acme", "budget")
    assert second.log.record.incarnation != first.log.record.incarnation
    assert second.at().to_dict() == {}
    with pytest.raises(stratalog.NotFound):
        first.mutate("put", {"key": "name", "value": "late"})


def test_an_organisation_lists_its_documents_in_order(store: stratalog.Store) -> None:
    for name in ("c", "a", "b"):
        store.create("acme", name)
    store.create("other", "d")
    assert [line.id for line in store.list("acme")] == ["a", "b", "c"]
    assert [line.id for line in store.list("acme", after="a")] == ["b", "c"]
    assert list(store.organisations()) == ["acme", "other"]


def test_organisations_of_lists_each_organisation_that_uses_a_name(store: stratalog.Store) -> None:
    store.create("other", "budget")
    store.create_log("acme", "budget")
    assert [(holder.organisation, holder.kind) for holder in store.organisations_of("budget")] == [
        ("acme", "log"),
        ("other", "document"),
    ]


def test_a_name_is_unique_in_its_organisation(store: stratalog.Store) -> None:
    store.create("acme", "budget")
    store.create("other", "budget")
    with pytest.raises(stratalog.Conflict):
        store.create("other", "budget")


def test_a_deleted_document_leaves_the_list(store: stratalog.Store) -> None:
    delete_log(store.create("acme", "budget").log)
    assert list(store.list("acme")) == []


def test_a_plain_log_is_no_document(store: stratalog.Store) -> None:
    store.create_log("acme", "events").append(stratalog.Event("seen", {"by": "ada"}))
    with pytest.raises(stratalog.Invalid, match="not a document"):
        store.document("acme", "events")
    assert store.log("acme", "events").entry(1).events[0].data == {"by": "ada"}


def test_calls_after_closing_raise_closed(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    store.close()
    with pytest.raises(stratalog.Closed):
        document.mutate("put", {"key": "name", "value": 1})


def test_opening_a_missing_store_without_create_is_refused(tmp_path: Path) -> None:
    with pytest.raises(stratalog.Invalid, match="the folder has no store"):
        stratalog.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", ["notes.txt", "notes.txt/store"])
def test_a_store_at_the_path_of_a_file_is_invalid_and_the_file_stays(tmp_path: Path, name: str, create: bool) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(stratalog.Invalid, match="this path is a file: name a folder") as refused:
        stratalog.open(tmp_path / name, create=create)
    assert refused.value.details["path"] == tmp_path / "notes.txt"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_new_store_and_the_folders_above_it_survive_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(20):
        disk = Disk(str(tmp_path / str(seed)), Random(seed))
        machine = SimulatedMachine(Scheduler(seed), disk, DiskWeather(), lambda _: None)
        with monkeypatch.context() as simulated:
            simulated.setattr(files, "sync_descriptor", disk.sync)
            simulated.setattr(folders, "sync_descriptor", disk.sync)
            simulated.setattr(sqlite, "SqliteDatabase", partial(SqliteDatabase, vfs=machine.vfs))
            store = stratalog.open(Path(disk.folder) / "srv/data/store", clock=ManualClock())
            store.create("acme", "budget").mutate("put", {"key": "items/1", "value": {"text": "x" * 5000}})
        after = disk.fail(str(tmp_path / f"{seed}.next"))
        with stratalog.open(Path(after.folder) / "srv/data/store", create=False) as reopened:
            assert reopened.document("acme", "budget").get("items/1") == {"text": "x" * 5000}
        store.close()


def test_a_url_with_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(stratalog.Invalid, match="ftp://host"):
        stratalog.open("ftp://host/place")


def test_the_public_names_of_the_package_exist_and_are_sorted() -> None:
    names = stratalog.__all__
    assert all(hasattr(stratalog, name) for name in names)
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def test_a_store_holds_a_bounded_number_of_recently_used_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.store.DOCUMENTS_HELD_MAX", 2)
    with stratalog.open("memory:") as store:
        first, second = store.create("acme", "first"), store.create("acme", "second")
        assert store.document("acme", "first") is first
        store.create("acme", "third")
        assert store.document("acme", "first") is first
        assert store.document("acme", "second") is not second


def test_a_store_on_aws_without_its_libraries_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stratalog.backends.aws_store", None)
    with pytest.raises(stratalog.Invalid, match=r'pip install "stratalog\[aws\]"'):
        stratalog.open("aws://acme")


def test_opening_a_memory_store_loads_no_aws_library() -> None:
    program = (
        "import sys, stratalog; stratalog.open('memory:').close(); print({'boto3', 'obstore'} & sys.modules.keys())"
    )
    done = run([sys.executable, "-c", program])
    assert done.stdout == "set()\n"


def test_concurrent_opens_of_a_document_share_a_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    with stratalog.open("memory:") as store:
        store.create("acme", "plan")
        store._documents.clear()
        opened, open_log = [], opening.open_log

        def slow(*arguments: Any, **options: Any) -> object:
            log = open_log(*arguments, **options)
            monkeypatch.setattr(opening, "open_log", open_log)
            opened.append(store.document("acme", "plan"))
            return log

        monkeypatch.setattr(opening, "open_log", slow)
        assert [store.document("acme", "plan")] == opened


def test_a_store_whose_blobs_cannot_be_opened_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFull("no room")

    monkeypatch.setattr(files, "FileBlobs", refuse)
    with pytest.raises(StorageFull):
        stratalog.open(tmp_path)
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("allowed", range(4))
def test_a_store_whose_lock_files_cannot_be_opened_leaves_no_file_open(
    allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_lock_file = [], turnstile.open_lock_file

    def open_some(path: str) -> int:
        if len(opened) == allowed:
            raise Unavailable("too many open files")
        opened.append(path)
        return open_lock_file(path)

    monkeypatch.setattr(turnstile, "open_lock_file", open_some)
    with pytest.raises(Unavailable) as caught:
        stratalog.open(tmp_path)
    assert open_files(tmp_path) == []
    assert caught.value.message == "too many open files"


def test_documents_are_opened_while_the_queue_is_opened() -> None:
    clock = SystemClock()

    def open_queue() -> Queue:
        run_together([partial(store.create, "acme", "plan"), partial(store.held_document, "acme", "other")])
        return MemoryQueue(clock)

    store = stratalog.Store(Environment(MemoryIndex(), MemoryBlobs(clock), clock), open_queue)
    assert store.queue is store.queue
    store.close()


def open_files(folder: Path) -> list[str]:
    """Return the names of the files below ``folder`` that this process has open."""
    paths = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return [path for path in paths if path.startswith(f"{folder}/")]
