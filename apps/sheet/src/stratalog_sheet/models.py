"""Warm models: the models of a few sheets in one engine, each at a version, that go forward with their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog import Log
from stratalog.clock import Clock, new_id
from stratalog.errors import StratalogError
from stratalog_sheet.engine import Engine
from stratalog_sheet.events import Created, Imported, Restored, Revision, fact_of
from stratalog_sheet.failed_versions import OPENING, Unopenable
from stratalog_sheet.limits import SHEET_MODELS_MAX
from stratalog_sheet.load_plan import LoadPlans

__all__ = ["Model", "Models"]

# A model remembers every message, and grows slower with each: after so many it is made anew from a newer state.
MESSAGES_MAX = 1000


class Model(msgspec.Struct):
    """One model in the engine: whose it is, from which state it was made, and where it has come to."""

    key: str
    owner: str
    base: int
    version: int
    messages: int


class Models:
    """The models of one engine, which end with it; those used longest ago go first. For one caller at a time."""

    def __init__(self, engine: Engine, unopenable: Unopenable, clock: Clock) -> None:
        self.engine = engine
        self._unopenable = unopenable
        self._clock = clock
        self._held: list[Model] = []

    def holds(self, owner: str) -> bool:
        """Whether a model of ``owner``'s log is warm here."""
        return any(model.owner == owner for model in self._held)

    def at(self, owner: str, load_plans: LoadPlans, log: Log, version: int) -> Model:
        """A model of ``owner``'s log at exactly ``version``: one that was behind, or a new one.

        Raises LimitExceeded for a version that engines failed at before.
        """
        self._unopenable.check(owner, version)
        behind = [model for model in self._held if model.owner == owner and model.version <= version]
        if behind:
            model = max(behind, key=lambda model: model.version)
            if self._advance(model, log, version):
                self._held.remove(model)
                self._held.append(model)
                return model
        return self._open(owner, load_plans, version)

    def raw(self, model: Model, name: str, **arguments: Any) -> bytes:
        """What the engine says of a model, as JSON. Raises LimitExceeded for what it failed at before."""
        self._unopenable.check(model.owner, model.version, name)
        return self._guarded(model.owner, model.version, name, name, key=model.key, **arguments)

    def query(self, model: Model, name: str, **arguments: Any) -> Any:
        """The same, decoded."""
        return msgspec.json.decode(self.raw(model, name, **arguments))

    def drop(self, model: Model) -> None:
        """Let go of a model: what is in it is not what was committed."""
        if model in self._held:
            self._held.remove(model)
        if self.engine.is_alive:
            self.engine.call("close", key=model.key)

    def confirm(self, model: Model, message: dict[str, Any], version: int) -> None:
        """A message that the model made was committed as ``version``."""
        self._follow(model, version, [message])

    def _advance(self, model: Model, log: Log, version: int) -> bool:
        """Go forward to ``version``. False where the model cannot: a state was given whole, or an undo reaches back."""
        if model.version == version:
            return True
        messages = self._messages(model, log, version)
        if messages is None or model.messages + len(messages) > MESSAGES_MAX:
            return False
        self._follow(model, version, messages)
        return True

    def _messages(self, model: Model, log: Log, version: int) -> list[dict[str, Any]] | None:
        messages = []
        for entry in log.read(model.version, version):
            fact = fact_of(entry)
            if isinstance(fact, Created | Imported | Restored):
                return None
            if isinstance(fact, Revision):
                if fact.target and fact.target <= model.base:
                    return None
                messages.append(fact.message)
        return messages

    def _follow(self, model: Model, version: int, messages: Sequence[dict[str, Any]]) -> None:
        try:
            self._guarded(model.owner, version, OPENING, "apply", key=model.key, messages=messages)
        except BaseException:
            self.drop(model)
            raise
        model.version = version
        model.messages += len(messages)

    def _open(self, owner: str, load_plans: LoadPlans, version: int) -> Model:
        load_plan = load_plans.plan(version)
        while len(self._held) >= SHEET_MODELS_MAX:
            self.drop(self._held[0])
        messages = load_plan.messages
        key = new_id(self._clock)
        # Its client is nobody else's: the engine takes messages of its own name for ones it has applied.
        given = {"key": key, "data": load_plan.base.data, "messages": messages, "client": key}
        self._guarded(owner, version, OPENING, "open", **given)
        model = Model(key, owner, load_plan.base.version, version, len(messages))
        self._held.append(model)
        return model

    def _guarded(self, owner: str, version: int, what: str, name: str, **arguments: Any) -> bytes:
        """A call; where the engine fails at it, that is remembered of the version."""
        try:
            answer = self.engine.raw(name, **arguments)
        except StratalogError as exc:
            self._unopenable.note(owner, version, what, exc)
            raise
        self._unopenable.forget(owner, version, what)
        return answer
