"""Pages have limits of rows and bytes. The server loads no value beyond a limit. Following `next` gives every row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.documents.values import Values
from stratalog.limits import LARGE_ROWS_MAX
from stratalog.log import snapshots
from stratalog.log.snapshots import Snapshot
from stratalog.ports.index import Item
from stratalog.protocol.readable import from_json
from stratalog.server import byte_budgets, sync
from stratalog.server.application import Application, ServerLimits
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.service import Service
from tests.server.api import BUDGET, Client, mutation, problem, push, serving

ACME = "/v1/organisations/acme"
LOG = f"{ACME}/logs/events"
REPORT = f"{ACME}/records/report"
MESSAGE_PACK = {"Accept": "application/msgpack"}
ROWS = 7
ENVELOPE_BYTES = 100
"""The limit for the fields of a page beside the rows: the version and `next`."""

# Each value has a path, the field of the rows, the parameter that takes `next`, and a flag. The flag is true if the
# order of the pages is opposite to the order of the rows.
LISTS: dict[str, tuple[str, str, str, bool]] = {
    "state": (f"{BUDGET}/state?at=7", "content", "after", False),
    "items": (f"{BUDGET}/items?at=7", "items", "after", False),
    "versions": (f"{BUDGET}/versions?upto=7", "versions", "after", False),
    "versions with states": (f"{BUDGET}/versions?upto=7&states=true", "versions", "after", False),
    "differences": (f"{BUDGET}/diff?source=1&target=7", "differences", "after", False),
    "changes of a key": (f"{BUDGET}/history?key=notes/often", "changes", "at", False),
    "documents and logs": (f"{ACME}?", "items", "after", False),
    "entries": (f"{LOG}/entries?upto=7", "entries", "after", False),
    "snapshots": (f"{LOG}/snapshots?", "snapshots", "before", True),
    "records": (f"{ACME}/records?", "records", "after", False),
    "versions of a record": (f"{REPORT}/versions?", "versions", "before", False),
}
VALUES = ["x" * 2000, 5, {"$bytes": "AAEC"}, "é" * 700, {"$$name": 1}, [1, 2, 3], "y" * 1500]


@pytest.fixture(scope="module")
def filled() -> Iterator[Client]:
    """A client of a server that has several rows for each list. Some rows are large."""
    with serving() as client:
        for number in range(ROWS - 1):
            client.put(f"{ACME}/documents/empty{number}")
            client.put(f"{ACME}/records/small{number}", content=b"a")
        client.put(BUDGET)
        client.put(LOG)
        for number, value in enumerate(VALUES, 1):
            often = mutation("ada", 2 * number, key="notes/often", value=[number, "z" * 300 * number])
            push(client, mutation("ada", 2 * number - 1, key=f"$notes/{number}", value=value), often)
            client.post(f"{LOG}/append", json={"events": [{"type": "noted", "data": value}]})
            assert client.put(f"{LOG}/snapshot?version={number}", json={"body": value}).status_code == 200
            client.put(REPORT, content=b"r" * number)
        yield client


def service_of(client: Client) -> Service:
    service: Service = client.app.state.service
    return service


def limit_pages(client: Client, page_bytes_max: int) -> None:
    service = service_of(client)
    limits = msgspec.structs.replace(service.application.limits, page_bytes_max=page_bytes_max)
    service.application = msgspec.structs.replace(service.application, limits=limits)


def pages_of(client: Client, name: str, page_bytes_max: int, limit: int, headers: dict[str, str]) -> list[list[Any]]:
    """Return the rows of each page until the last one. Assert that each page respects its limits."""
    path, rows_name, parameter, _ = LISTS[name]
    limit_pages(client, page_bytes_max)
    pages: list[list[Any]] = []
    following: Any = None
    while following is not None or not pages:
        asked = "" if following is None else f"&{parameter}={following}"
        answer = client.get(f"{path}&limit={limit}{asked}", headers=headers)
        assert answer.status_code == 200, answer.text
        page = msgspec.msgpack.decode(answer.content) if headers else from_json(answer.content)
        rows = page[rows_name]
        rows = list(rows.items()) if isinstance(rows, dict) else rows
        assert 1 <= len(rows) <= limit
        assert len(rows) == 1 or len(answer.content) <= page_bytes_max + ENVELOPE_BYTES
        pages.append(rows)
        assert len(pages) <= 2 * ROWS, "the pages do not end"
        following = page["next"]
    return pages


@pytest.mark.parametrize("headers", [{}, MESSAGE_PACK], ids=["json", "msgpack"])
@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(LISTS)), page_bytes_max=st.integers(1, 6000), limit=st.integers(1, ROWS + 1))
def test_following_next_gives_the_rows_of_one_large_page(
    filled: Client, headers: dict[str, str], name: str, page_bytes_max: int, limit: int
) -> None:
    # A page has at least one row of any size, but the server refuses a state that is larger than a page.
    smallest = 9000 if name == "versions with states" else 0
    [large] = pages_of(filled, name, 10**6, 50, headers)
    pages = pages_of(filled, name, page_bytes_max + smallest, limit, headers)
    assert list(chain.from_iterable(pages[::-1] if LISTS[name][3] else pages)) == large
    assert len(large) >= ROWS


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The stored values that the server loads, in order."""
    loaded: list[bytes] = []
    load = Values.load

    def note(self: Values, stored: bytes) -> bytes:
        loaded.append(stored)
        return load(self, stored)

    monkeypatch.setattr(Values, "load", note)
    return loaded


@pytest.fixture
def noted_client() -> Iterator[Client]:
    """A client of a server with pages of 7,000 bytes, and a document of twelve values of 2,000 bytes."""
    with serving(Application(limits=ServerLimits(page_bytes_max=7000))) as client:
        client.put(BUDGET)
        for number in range(12):
            put = mutation("ada", number + 1, key=f"notes/{number:02}", value=f"{number:02}" + "x" * 2000)
            push(client, put)
        yield client


def test_a_page_of_a_state_reads_no_value_that_does_not_fit(noted_client: Client, loads: list[bytes]) -> None:
    page = noted_client.get(f"{BUDGET}/state").json()
    assert (list(page["content"]), page["next"]) == (["notes/00", "notes/01", "notes/02"], "notes/02")
    assert len(loads) == 3


@pytest.mark.parametrize(
    ("path", "rows_name", "values_of_row"),
    [
        ("versions?", "versions", 1),
        ("history?key=notes/00", "changes", 2),
        ("diff?source=0&target=12", "differences", 1),
    ],
)
def test_a_page_of_versions_changes_or_differences_reads_no_value_that_does_not_fit(
    noted_client: Client, loads: list[bytes], path: str, rows_name: str, values_of_row: int
) -> None:
    for number in range(12, 20):
        push(noted_client, mutation("ada", number + 1, key="notes/00", value=f"{number}" + "y" * 2000))
    loads.clear()
    page = noted_client.get(f"{BUDGET}/{path}").json()
    assert page["next"] is not None
    assert len(page[rows_name]) == 3 // values_of_row
    assert len(loads) == len(page[rows_name]) * values_of_row


def test_a_page_of_differences_reads_no_value_of_the_pages_before_it(noted_client: Client, loads: list[bytes]) -> None:
    path, pages, following = f"{BUDGET}/diff?source=0&target=12&limit=2", 0, ""
    while following is not None:
        following = noted_client.get(f"{path}&after={following}").json()["next"]
        pages += 1
    assert pages == 6
    assert len(loads) == 12


def test_a_state_in_a_list_of_versions_larger_than_a_page_is_refused_unread(
    noted_client: Client, loads: list[bytes]
) -> None:
    page = noted_client.get(f"{BUDGET}/versions?states=true").json()
    assert [len(row["state"]) for row in page["versions"]] == [1]
    loads.clear()
    answer = noted_client.get(f"{BUDGET}/versions?states=true&after=3&limit=1")
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == 7000 < answer.json()["value"]
    assert loads == []


def test_a_page_of_snapshots_reads_only_its_rows_and_the_next_row(
    filled: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    described = snapshots.snapshot_from_item

    def note(prefix: str, item: Item) -> Snapshot:
        read.append(item)
        return described(prefix, item)

    monkeypatch.setattr(snapshots, "snapshot_from_item", note)
    limit_pages(filled, 10**6)
    page = filled.get(f"{LOG}/snapshots?limit=1").json()
    assert ([row["version"] for row in page["snapshots"]], page["next"]) == ([7], 7)
    assert len(read) == 2


@pytest.mark.parametrize("name", ["snapshots", "versions of a record"])
def test_a_list_in_descending_order_continues_below_a_version(filled: Client, name: str) -> None:
    path, rows_name, parameter, _ = LISTS[name]
    limit_pages(filled, 10**6)
    newest = filled.get(f"{path}&limit=2").json()
    older = filled.get(f"{path}&limit=3&{parameter}={newest['next']}").json()
    versions = [sorted(row["version"] for row in page[rows_name]) for page in (newest, older)]
    assert versions == [[6, 7], [3, 4, 5]]
    assert (newest["next"], older["next"]) == (6, 3)


# The budget of answers

TOKENS = StaticTokens({"ada": Principal(id="ada"), "bob": Principal(id="bob")})
ADA, BOB = ({"Authorization": f"Bearer {name}"} for name in ("ada", "bob"))


@pytest.fixture
def shared() -> Iterator[Client]:
    """A client of a server with two principals. Each may use 8,000 bytes of responses. A page has 3,000 bytes."""
    limits = ServerLimits(
        page_bytes_max=3000, answer_bytes_of_principal_max=8000, answer_bytes_in_flight_max=14_000, threads=2
    )
    with serving(Application(authenticate=TOKENS, limits=limits)) as client:
        client.put(BUDGET, headers=ADA)
        for number in range(3):
            put = mutation("ada", number + 1, key=f"notes/{number}", value="x" * 2000)
            client.post(f"{BUDGET}/push", json={"group": "g", "mutations": [put]}, headers=ADA)
        yield client


def test_a_page_is_refused_unread_if_its_principal_s_share_of_answers_is_used_up(
    shared: Client, loads: list[bytes]
) -> None:
    answers = service_of(shared).byte_budgets.answers
    of_ada = answers.take(("principal", "ada"), amount=6000)
    for path in ("state", "items", "versions", "diff?source=0&target=3", "history?key=notes/0"):
        answer = shared.get(f"{BUDGET}/{path}", headers=ADA)
        assert problem(answer, scope=True) == (429, "too-many-requests")
        assert (answer.json()["scope"], answer.json()["limit"], answer.json()["value"]) == ("principal", 8000, 9000)
        assert "retry-after" in answer.headers
    assert loads == []
    assert shared.get(f"{BUDGET}/state", headers=BOB).status_code == 200
    of_cyd = answers.take(("principal", "cyd"), amount=6000)
    assert problem(shared.get(f"{BUDGET}/state", headers=BOB), scope=True) == (503, "unavailable")
    of_ada.release()
    of_cyd.release()
    assert answers.used == 0
    assert shared.get(f"{BUDGET}/state", headers=ADA).status_code == 200
    assert answers.used == 0


def test_the_bytes_of_a_page_are_allocated_while_its_values_are_read(
    shared: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = service_of(shared).byte_budgets.answers
    taken: list[int] = []
    load = Values.load

    def note(self: Values, stored: bytes) -> bytes:
        taken.append(answers.used)
        return load(self, stored)

    monkeypatch.setattr(Values, "load", note)
    assert shared.get(f"{BUDGET}/state", headers=ADA).status_code == 200
    assert (taken, answers.used) == ([3000], 0)


@pytest.mark.parametrize(
    "path", ["state", "item?key=notes/0", "versions", "diff?source=0&target=3", "history?key=notes/0", "pull"]
)
def test_a_large_row_uses_a_permit_while_it_is_read(shared: Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    large_rows = service_of(shared).byte_budgets.large_rows
    free: list[int] = []
    load = Values.load

    def note(self: Values, stored: bytes) -> bytes:
        free.append(large_rows._value)
        return load(self, stored)

    monkeypatch.setattr(Values, "load", note)
    monkeypatch.setattr(byte_budgets, "LARGE_ROW_BYTES_MIN", 1000)
    monkeypatch.setattr(sync, "PULL_START_BYTES_MAX", 1000)
    if path == "pull":
        answer = shared.post(f"{BUDGET}/pull", json={"group": "x"}, headers=ADA)
    else:
        answer = shared.get(f"{BUDGET}/{path}", headers=ADA)
    assert answer.status_code == 200
    assert set(free) == {LARGE_ROWS_MAX - 1}
    assert large_rows._value == LARGE_ROWS_MAX


@pytest.mark.parametrize("path", ["state", "item?key=notes/large"])
def test_a_row_larger_than_a_share_is_an_error_with_the_size_and_the_limit(shared: Client, path: str) -> None:
    put = mutation("bob", 1, key="notes/large", value="x" * 90_000)
    shared.post(f"{BUDGET}/push", json={"group": "h", "mutations": [put]}, headers=BOB)
    answer = shared.get(f"{BUDGET}/{path}{'?after=notes/2' if path == 'state' else ''}", headers=BOB)
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == 8000 < 90_000 <= answer.json()["value"]
    assert service_of(shared).byte_budgets.answers.used == 0


def test_a_row_larger_than_a_page_is_answered_alone(shared: Client) -> None:
    put = mutation("bob", 1, key="notes/0", value="x" * 5000)
    shared.post(f"{BUDGET}/push", json={"group": "h", "mutations": [put]}, headers=BOB)
    page = shared.get(f"{BUDGET}/state", headers=BOB).json()
    assert (len(page["content"]["notes/0"]), page["next"], len(page["content"])) == (5000, "notes/0", 1)
