"""Sync cycles between a replica and a server: push, then pull, with recovery from lost answers and lost data."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stratalog.client.push_decision import PushDecision, Waiting, interpret_push
from stratalog.client.replica import Replica
from stratalog.client.transport import Transport, Unreached
from stratalog.clock import Clock, Observation
from stratalog.errors import Collected, Forbidden, Invalid, LimitExceeded, NotFound, OutcomeUnknown, StratalogError
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.process_fork import close_in_child
from stratalog.protocol.sync import Pull, Push

__all__ = ["SyncCycle"]

# A network that sends 4 KiB a second sends a push of this size in 48 s. The server allows 63 s: 60 s, and a second for
# each 64 KiB. The rest of the time is for the headers and for pauses of the network.
PUSH_BYTES_TARGET = 192 * 1024
QUEUED_SECONDS_MAX = 30
SETBACKS_MAX = 4

# A push that raises one of these errors has certainly committed nothing: see `Transport.push`.
NOTHING_COMMITTED = (Forbidden, Invalid, LimitExceeded, NotFound, Unreached)


class SyncCycle:
    """Runs sync cycles, one at a time, on the threads that call `run`."""

    def __init__(self, replica: Replica, transport: Transport, clock: Clock) -> None:
        self._replica = replica
        self._transport = transport
        self._clock = clock
        self._turn = threading.Lock()
        close_in_child(self, "_turn")
        self._turn_of: int | None = None
        self._met = False
        self._queued: Observation | None = None

    def run(self) -> None:
        """Push the unanswered mutations, then pull. After an error, keep all earlier answers.

        If a push is too large for the server, send fewer mutations at once. Settle a mutation that is too large by
        itself as rejected.

        Raises the transport's errors, Corrupt for an answer that does not fit, and the errors of the file. Raises
        Invalid if a subscriber calls this method on the thread of a running cycle.
        """
        with self._own_turn():
            try:
                self._run()
            except Collected:
                self._replica.settle(lambda local: local.reset(()))
                self._run()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        if self._turn_of == threading.get_ident():
            raise Invalid("a subscriber may not synchronise: a sync cycle is calling it")
        with self._turn:
            self._turn_of = threading.get_ident()  # so a nested call raises Invalid instead of waiting for ever
            try:
                yield
            finally:
                self._turn_of = None

    def _run(self) -> None:
        if self._must_pull_first():
            self._pull()
        self._met = True
        self._resend_queued()
        try:
            self._push_all()
        except (Collected, OutcomeUnknown, Unreached):
            raise
        except StratalogError:
            # A server that accepts no push of this client may still answer its pull.
            self._pull()
            raise
        self._pull()

    def _must_pull_first(self) -> bool:
        """Return whether to pull before the first push.

        A first pull reports no rejections, so the client makes it before any of its mutations can be rejected. In a new
        process the pull also shows whether another copy of the file uses this client id. The client must not send a new
        mutation under the id before this check.
        """
        with self._replica.held() as local:
            return local.cookie is None or (not self._met and local.has_unsent())

    def _resend_queued(self) -> None:
        if self._queued is not None and self._queued.age_seconds() > QUEUED_SECONDS_MAX:
            self._queued = None
            with self._replica.held() as local:
                local.resend_queued()

    def _push_all(self) -> None:
        setbacks, size, is_behind = 0, MUTATIONS_PER_BATCH_MAX, False
        while setbacks < SETBACKS_MAX and (batch := self._batch(size)):
            try:
                decision = self._push(batch)
            except LimitExceeded as exc:
                if len(batch) == 1:
                    self._refuse(batch[0], str(exc))
                size = max(1, len(batch) // 2)
                continue
            size = min(2 * size, MUTATIONS_PER_BATCH_MAX)
            self._follow(batch, decision)
            if decision.is_behind:
                self._catch_up(batch, decision, again=is_behind)
            is_behind = decision.is_behind
            # A server that repeats one of these answers must not keep the cycle running for ever.
            setbacks += is_behind or decision.reset or decision.resend_from is not None

    def _batch(self, size: int) -> list[Waiting]:
        with self._replica.held() as local:
            return local.batch(size, PUSH_BYTES_TARGET)

    def _push(self, batch: Sequence[Waiting]) -> PushDecision:
        with self._replica.held() as local:
            client, group, cookie, first = local.client, local.group, local.cookie, local.oldest()
            local.note_sending(batch)  # durable before the request: after a crash, each mutation may be committed
        mutations = [waiting.mutation(client) for waiting in batch]
        try:
            pushed = self._transport.push(Push(group, mutations, cookie.origin if cookie else ""))
        except NOTHING_COMMITTED:
            with self._replica.held() as local:
                local.note_refused(batch)
            raise
        return interpret_push(client, batch, pushed, first or batch[0])

    def _follow(self, batch: Sequence[Waiting], decision: PushDecision) -> None:
        with self._replica.held() as local:
            local.note_committed(decision.committed)
            if decision.resend_from is not None:
                local.resend_from(decision.resend_from)
        if decision.queued:
            self._replica.note_queued(batch)
            self._queued = self._queued or Observation(self._clock)
        if decision.reset:
            self._replica.settle(lambda local: local.reset(decision.uncommitted))

    def _catch_up(self, batch: Sequence[Waiting], decision: PushDecision, *, again: bool) -> None:
        """Handle a server that has lost mutations that it had confirmed.

        First the client pulls, because a pull raises the server's numbers. ``again`` means that the push after this
        pull got the same answer. In this case the client continues under another id.
        """
        if again:
            self._replica.settle(lambda local: local.reset(decision.uncommitted))
            return
        with self._replica.held() as local:
            local.note_refused(batch)
        self._pull()

    def _refuse(self, waiting: Waiting, reason: str) -> None:
        self._replica.settle(lambda local: local.refuse(waiting, reason))

    def _pull(self) -> None:
        with self._replica.held() as local:
            request = Pull(local.group, local.cookie)
        try:
            pulled = self._transport.pull(request)
        except Forbidden as exc:
            self._leave_group(exc)
            raise
        self._replica.settle(lambda local: local.apply(request.cookie, pulled), pulled)

    def _leave_group(self, forbidden: Forbidden) -> None:
        """After a forbidden pull, continue with a new group if another principal owns this group.

        In this case the error names the group, and the server will accept no push of this group. If the error does not
        name the group, the principal may lack a right only for some time, for example because its token has expired.
        The client then keeps the group. In a new group it could neither repeat a mutation whose answer was lost, nor
        notice that a restored server has lost confirmed mutations.
        """
        with self._replica.held() as local:
            leaves = forbidden.details.get("value") == local.group
        if leaves:
            self._replica.settle(lambda local: local.reset(()))
