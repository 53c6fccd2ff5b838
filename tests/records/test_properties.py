"""After operations in any order, some with lost answers, the records equal a model, a dictionary of lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.errors import NotFound, OutcomeUnknown, VersionConflict
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from tests.records.helpers import World

IDS = st.sampled_from(["a", "b", "a/b"])
BODIES = st.sampled_from([b"", b"x", b"y", b"z" * 10, bytes(range(256)) * 80, bytes(reversed(range(256))) * 80])


class RecordsMachine(RuleBasedStateMachine):
    """`model` lists every version ever put, with None for a deletion.

    `floor` is each record's oldest retained version.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.model: dict[str, list[bytes | None]] = {}
        self.floor: dict[str, int] = {}

    @rule(id=IDS, body=BODIES, stranger=st.booleans())
    def put(self, id: str, body: bytes, stranger: bool) -> None:
        records = self.world.handle() if stranger else self.world.records
        versions = self.model.setdefault(id, [])
        if not versions or versions[-1] != body:
            versions.append(body)
        assert records.put(id, body).version == len(versions)

    @rule(id=IDS, body=BODIES, expected=st.integers(0, 4))
    def put_expected(self, id: str, body: bytes, expected: int) -> None:
        versions = self.model.get(id, [])
        is_retained = self.floor.get(id, 1) <= expected + 1
        try:
            version = self.world.records.put(id, body, expected=expected).version
        except VersionConflict:
            assert expected != len(versions)
            assert not (is_retained and expected < len(versions) and versions[expected] == body)
            return
        if expected < len(versions) and versions[expected] == body:
            assert version == expected + 1
        elif versions and versions[-1] == body:
            assert version == len(versions) == expected
        else:
            self.model.setdefault(id, []).append(body)
            assert version == expected + 1 == len(self.model[id])

    @rule(id=IDS, tail=st.sampled_from([b"", b"+"]))
    def update(self, id: str, tail: bytes) -> None:
        versions = self.model.get(id, [])
        if not versions or versions[-1] is None:
            with pytest.raises(NotFound):
                self.world.records.update(id, lambda body: body)
            return
        if tail:
            versions.append(versions[-1] + tail)
        assert self.world.records.update(id, lambda body: body + tail).version == len(versions)

    @rule(id=IDS)
    def delete_and_perhaps_revive(self, id: str) -> None:
        versions = self.model.get(id, [])
        if not versions:
            return
        if versions[-1] is None:
            if self.floor.get(id, 1) < len(versions):
                versions.append(versions[-2])
                assert self.world.records.undelete(id).version == len(versions)
        else:
            versions.append(None)
            assert self.world.records.delete(id).version == len(versions)

    @rule(id=IDS, retain=st.integers(1, 3))
    def prune(self, id: str, retain: int) -> None:
        if versions := self.model.get(id):
            self.floor[id] = max(self.floor.get(id, 1), len(versions) - retain + 1)
            assert self.world.records.prune(id, retain=retain) == self.floor[id]

    @rule(id=IDS)
    def free(self, id: str) -> None:
        self.world.records.free(id)

    @rule(seconds=st.sampled_from([1, GRACE_SECONDS, OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1]))
    def wait(self, seconds: int) -> None:
        self.world.pass_seconds(seconds)

    @rule(with_effect=st.booleans())
    def lose_the_next_answer(self, with_effect: bool) -> None:
        def lose(commit: Callable[[], None]) -> None:
            if with_effect:
                commit()
            raise OutcomeUnknown("lost")

        self.world.index.script = [lose]

    @invariant()
    def everything_retained_can_be_read(self) -> None:
        script, self.world.index.script = self.world.index.script, []
        reader = self.world.handle()
        assert [line.id for line in reader.list()] == sorted(self.model, key=lambda id: id.replace("/", "%2F"))
        for id, versions in self.model.items():
            retained = range(self.floor.get(id, 1), len(versions) + 1)
            assert [version.version for version in reader.versions(id)] == list(retained)
            for number in retained:
                body = versions[number - 1]
                if body is None:
                    assert reader.stat(id, number).deleted
                else:
                    assert reader.get(id, number).body == body
        self.world.index.script = script


RecordsMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_records_are_a_dictionary_of_lists = RecordsMachine.TestCase
