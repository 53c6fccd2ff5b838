"""Warm models: the open models of a few sheets in one engine. Each model has a version and advances along its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from stratalog import Log
from stratalog.clock import Clock, Observation, new_id
from stratalog.codec import encode
from stratalog.errors import StratalogError, Unavailable, VersionForgotten
from stratalog_sheet.bounds import objects_in
from stratalog_sheet.engine import Engine
from stratalog_sheet.events import Created, Imported, Restored, Revision, fact_of
from stratalog_sheet.failed_versions import OPENING, Unopenable
from stratalog_sheet.limits import SHEET_LOAD_BYTES_MAX, SHEET_MODELS_MAX, SHEET_OBJECTS_ADDED_MAX
from stratalog_sheet.load_plan import LoadPlans

__all__ = ["LongOpening", "Model", "Models", "until_opened"]

T = TypeVar("T")

# A model stores every message and becomes slower with each message. After this many messages, open a new model from a
# newer state.
MESSAGES_MAX = 1000
Step = tuple[int, dict[str, Any]]
"""(version, message): a message, and the version as which it was committed."""


class LongOpening(Unavailable):
    """The calls that open a sheet took too long. The next call for this version continues at the version `reached`."""

    def __init__(self, version: int, reached: int) -> None:
        text = "the sheet has much content that takes long to open; try again, and the opening continues"
        super().__init__(text, version=version, reached=reached)
        self.reached = reached


def until_opened(call: Callable[[], T]) -> T:
    """Return the result of ``call``. Call it again while an opening that takes too long reaches later versions."""
    reached = 0
    while True:
        try:
            return call()
        except LongOpening as exc:
            before, reached = reached, exc.reached
            if reached <= before:
                raise


class Model(msgspec.Struct):
    """One model in the engine. ``base`` is the version of its base state, and ``messages`` counts its messages.

    ``planned`` is the version of its load plan. A model below this version is not completely opened.
    """

    key: str
    owner: str
    base: int
    version: int
    planned: int
    messages: int


class Models:
    """The models of one engine, for one caller at a time. A new model may evict the least recently used model."""

    def __init__(self, engine: Engine, unopenable: Unopenable, clock: Clock, seconds_max: float) -> None:
        self.engine = engine
        self._seconds_max = seconds_max
        self._unopenable = unopenable
        self._clock = clock
        self._held: list[Model] = []

    def holds(self, owner: str) -> bool:
        """Return whether a model of ``owner``'s log is open in this engine."""
        return any(model.owner == owner for model in self._held)

    def at(self, owner: str, load_plans: LoadPlans, log: Log, version: int) -> Model:
        """Return a model of ``owner``'s log at exactly ``version``.

        This method advances an open model to ``version``, or opens a new model. Raises LongOpening if that takes too
        long. The model is then at an earlier version, and the next call of this method continues there. Raises
        LimitExceeded for a version that engines recently failed to open too often, and the errors of `LoadPlans.plan`
        and `Engine.raw`.
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
        """Return the JSON result of a call on a model. Raises LimitExceeded if `Unopenable` refuses the call.

        Also raises the errors of `Engine.raw`.
        """
        self._unopenable.check(model.owner, model.version, name)
        return self._guarded(model.owner, model.version, name, name, key=model.key, **arguments)

    def query(self, model: Model, name: str, **arguments: Any) -> Any:
        """Return the decoded result of `raw`."""
        return msgspec.json.decode(self.raw(model, name, **arguments))

    def drop(self, model: Model) -> None:
        """Remove a model, for example after a change that was not committed. Close the model if the engine is alive."""
        if model in self._held:
            self._held.remove(model)
        if self.engine.is_alive:
            self.engine.call("close", key=model.key)

    def confirm(self, model: Model, message: dict[str, Any], version: int) -> None:
        """Advance a model over a message that this model made. The message is committed as ``version``."""
        self._follow(model, version, [(version, message)])

    def _advance(self, model: Model, log: Log, version: int) -> bool:
        """Advance to ``version``. Return False if the model cannot apply the entries or would have too many messages.

        The model cannot apply entries that the log has forgotten. An opening continues with any number of messages.
        """
        if model.version == version:
            return True
        try:
            steps = self._steps(model, log, version)
        except VersionForgotten:  # the floor rose above the model's version: open a new model
            return False
        # Below the version of its plan, a model needs the messages of its plan, which a new model also needs.
        if steps is None or (model.version >= model.planned and model.messages + len(steps) > MESSAGES_MAX):
            return False
        self._follow(model, version, steps)
        return True

    def _steps(self, model: Model, log: Log, version: int) -> list[Step] | None:
        """Return the messages up to ``version``, each with its version.

        Return None if the model cannot apply an entry, such as a complete state, or if the messages are too large.
        """
        steps = []
        bytes_left = SHEET_LOAD_BYTES_MAX
        for entry in log.read(model.version, version):
            fact = fact_of(entry)
            if isinstance(fact, Created | Imported | Restored):
                return None
            if isinstance(fact, Revision):
                if fact.target and fact.target <= model.base:
                    return None  # the model has never received the edit that is undone or redone
                bytes_left -= len(encode(fact.message))
                if bytes_left < 0:
                    return None  # a new model has the same limit, but begins at a newer state
                steps.append((entry.version, fact.message))
        return steps

    def _follow(self, model: Model, version: int, steps: Sequence[Step]) -> None:
        """Advance a model over ``steps`` to ``version``, in calls that each end within the limit of a call.

        Raises LongOpening after a call if all calls so far took too long.
        """
        start = Observation(self._clock)
        for call in _calls(steps):
            if start.age_seconds() > self._seconds_max:
                raise LongOpening(version, model.version)
            messages = [message for _, message in call]
            try:
                self._guarded(model.owner, version, OPENING, "apply", key=model.key, messages=messages)
            except BaseException:
                self.drop(model)
                raise
            model.version, _ = call[-1]
            model.messages += len(messages)
        model.version = version
        self._unopenable.forget(model.owner, version, OPENING)

    def _open(self, owner: str, load_plans: LoadPlans, version: int) -> Model:
        load_plan = load_plans.plan(version)
        while len(self._held) >= SHEET_MODELS_MAX:
            self.drop(self._held[0])
        first = next(iter(_calls(load_plan.steps)), [])
        key = new_id(self._clock)
        # Each model has its own client id, because the engine skips messages of its own client as already applied.
        messages = [message for _, message in first]
        given = {"key": key, "data": load_plan.base.data, "messages": messages, "client": key}
        self._guarded(owner, version, OPENING, "open", **given)
        base = load_plan.base.version
        model = Model(key, owner, base, first[-1][0] if first else base, version, len(first))
        self._held.append(model)
        self._follow(model, version, load_plan.steps[len(first) :])
        return model

    def _guarded(self, owner: str, version: int, what: str, name: str, **arguments: Any) -> bytes:
        """Call the engine, and record a failure or success of this call at this version."""
        try:
            answer = self.engine.raw(name, **arguments)
        except StratalogError as exc:
            self._unopenable.note(owner, version, what, exc)
            raise
        if what != OPENING:  # further calls of the same opening may fail
            self._unopenable.forget(owner, version, what)
        return answer


def _calls(steps: Sequence[Step]) -> list[list[Step]]:
    """Split the messages of a load into calls. The engine tries each object of a message, such as a chart.

    A call has at most as many objects as one message may have, so that the limit of a call's time holds for each load.
    """
    calls: list[list[Step]] = []
    objects = 0
    for version, message in steps:
        count = objects_in(message.get("commands", ()))
        objects += count
        if objects > SHEET_OBJECTS_ADDED_MAX or not calls:
            calls.append([])
            objects = count
        calls[-1].append((version, message))
    return calls
