"""A session: the steps of its members, the loss of history, the checks after the loss, and the checks at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.branches.members import FAULTS, Member, Report, Token, shown_tokens, token_of, tokens
from tests.branches.servers import BranchServer

__all__ = ["EVENTS", "Session"]

EVENTS = ("restore", "rollback", "split")
FAULT_RATE = 0.35
PADDING = "x" * 30_000
SYNCS_MAX = 300
PAUSE_SECONDS = 0.01


class Session:
    """Members that share one document. Some members are tabs of a browser.

    ``met`` counts what the session did and saw: among others sync cycles, moves, mutations and lost mutations.
    """

    def __init__(self, chance: Random, server: BranchServer, browsers: Sequence[Sequence[Member]]) -> None:
        self.met: Counter[str] = Counter()
        self._chance = chance
        self._servers = [server]
        self._browsers = browsers
        self._members = [member for browser in browsers for member in browser]
        self._made: dict[str, list[Token]] = {member.name: [] for member in self._members}
        self._lost: set[Token] = set()
        self._numbered: set[tuple[Token, str, int]] = set()
        self._pending: dict[str, set[Token]] = {}
        self._is_struck = False

    def steps(self, count: int) -> None:
        """Run random changes and sync cycles, with faults. After a split, members also move between the servers."""
        for _ in range(count):
            self._step(self._chance.choice(self._members))

    def strike(self, event: str, folder: Path, backup: Path) -> None:
        """Lose history, or split the store into two copies that both continue."""
        [server, *_] = self._servers
        if event == "split":
            other = BranchServer(server.copy(folder / "other"), queued=server.queued, killed=server.killed)
            self._servers.append(other)
            other.start()
            self._move()
        else:
            self._lost |= {token for token, *_ in _log(server)}
            self._numbered |= _numbered(server)
            for browser in self._browsers:
                self._note_pending(browser)
            lose = server.put_back if event == "restore" else server.roll_back
            lose(backup)
        self._is_struck = True

    def finish(self) -> None:
        """Deliver all late requests, sync until nothing is pending, and check all servers and members."""
        for member in self._members:
            member.deliver_late()
        for member in [*self._members, *self._members]:
            self._settle(member)
        for server in self._servers:
            self._check_server(server)

    def close(self) -> None:
        """Close the servers that a split made, and the members."""
        for member in self._members:
            member.close()
        for server in self._servers[1:]:
            server.close()

    def _note_pending(self, tabs: Sequence[Member]) -> None:
        """Note the own pending mutations of each tab, for `finish`, unless an answer to a tab has confirmed them.

        A tab of Replicache that has read the stored state of another tab also lists the other tab's pending mutations.
        """
        reports = {member.name: member.report() for member in tabs}
        numbers = [number for report in reports.values() for number in report.numbers.items()]
        confirmed = {
            token
            for token, owner, id in self._numbered
            if any(owner == client and id <= number for client, number in numbers)
        }
        for name, report in reports.items():
            own = {token for token in tokens(report.pending) if token[0] == name}
            self._pending[name] = own - confirmed

    def _step(self, member: Member) -> None:
        draw = self._chance.random()
        if len(self._servers) > 1 and self._chance.random() < 0.12:
            self._move()
        elif draw < 0.45:
            self._change(member)
        elif draw < 0.85:
            self._sync(member, *self._faults())
        elif draw < 0.9:
            member.restart()
        else:
            member.deliver_late()

    def _faults(self) -> list[str]:
        return [self._chance.choice(FAULTS) if self._chance.random() < FAULT_RATE else "" for _ in range(3)]

    def _change(self, member: Member) -> None:
        made = self._made[member.name]
        token = (member.name, len(made))
        key = f"items/{self._chance.randrange(3)}"
        value = {"by": token, **({"padding": PADDING} if self._chance.random() < 0.05 else {})}
        changes = [("append", {"key": "list", "item": token})] * 4
        changes += [("put", {"key": key, "value": value})] * 3 + [("onlyHere", {"key": "nowhere", "item": token})]
        if member.change(*self._chance.choice(changes)):
            made.append(token)

    def _sync(self, member: Member, *faults: str) -> bool:
        went_well = member.sync(*faults)
        self.met["sync cycles"] += 1
        if went_well and self._is_struck and not any(faults):
            self._check_shown(member)
        return went_well

    def _move(self) -> None:
        browser = self._chance.choice(self._browsers)
        server = self._chance.choice(self._servers)
        self.met["moves"] += server is not browser[0].server
        for member in browser:
            member.move(server)

    def _settle(self, member: Member) -> None:
        for attempt in range(SYNCS_MAX):
            if self._sync(member) and not member.report().pending:
                return
            if attempt % 10 == 9:
                member.pass_time()
            time.sleep(PAUSE_SECONDS)
        raise AssertionError(f"{member.name} still has pending mutations: {member.report().pending}")

    def _check_shown(self, member: Member) -> None:
        """Check that each change that a member shows is pending or in the log of the member's server."""
        report = member.report()
        applied = {token for token, _, reason in _log(member.server) if reason is None}
        lost = shown_tokens(report.shown) - applied - tokens(report.pending)
        assert not lost, f"{member.name} shows mutations that its server does not have: {sorted(lost)}"

    def _check_server(self, server: BranchServer) -> None:
        log = _log(server)
        twice = [token for token, count in Counter(token for token, *_ in log).items() if count > 1]
        assert not twice, f"applied twice: {twice}"
        content = server.content()
        elsewhere = self._lost | {token for other in self._servers if other is not server for token, *_ in _log(other)}
        for member in self._members:
            if member.server is server:
                report = member.report()
                assert report.faults == []
                assert report.pending == []
                assert _plain(report.shown) == _plain(content)
                self._check_outcomes(member, report, log, elsewhere)

    def _check_outcomes(
        self, member: Member, report: Report, log: list[tuple[Token, str, str | None]], elsewhere: set[Token]
    ) -> None:
        """Check that each mutation is in the log, in order, or that its client reports the loss."""
        arrived = [token for token, *_ in log if token[0] == member.name]
        assert arrived == sorted(arrived)
        failures: dict[Token, str] = {}
        for failure in report.failures or []:
            token = token_of(failure.args)
            assert token is not None
            assert token not in failures, "a failure is reported twice"
            failures[token] = failure.status
        missing = set(self._made[member.name]) - set(arrived)
        named = {token for token, status in failures.items() if status in ("lost", "unknown")}
        rejected = {token for token, status in failures.items() if status == "rejected"}
        lost = {token for token, status in failures.items() if status == "lost"}
        # A member may report a mutation as lost at one copy, and later move to the copy that has the mutation.
        confirmed = elsewhere | ({*arrived} if len(self._servers) > 1 else set())
        assert lost <= confirmed, f"{member.name} reports unconfirmed mutations as lost: {sorted(lost - confirmed)}"
        if report.failures is not None:
            assert rejected | named >= {token for token, _, reason in log if reason and token[0] == member.name}
        unnamed = missing - (elsewhere if report.failures is None else {*failures})
        assert not unnamed, f"lost and not reported: {sorted(unnamed)}"
        self._check_pending(member, set(arrived), named - lost, rejected)
        if len(self._servers) == 1:
            assert not lost & set(arrived)
        self.met.update({"mutations": len(self._made[member.name]), "lost": len(missing), "named": len(lost)})
        self.met["unknown"] += len(named - lost)

    def _check_pending(self, member: Member, arrived: set[Token], unknown: set[Token], rejected: set[Token]) -> None:
        """Check that each mutation that was pending at the loss arrived, or is reported as unknown or rejected."""
        waited = self._pending.get(member.name, set())
        assert waited <= arrived | unknown | rejected, f"pending and lost: {sorted(waited - arrived)}"
        self.met["pending at the event"] += len(waited)


def _log(server: BranchServer) -> list[tuple[Token, str, str | None]]:
    """Return the token, the client and the rejection reason of each mutation of a member, in log order."""
    named = [(token_of(mutation.args), mutation) for mutation in server.committed()]
    return [(token, mutation.client, mutation.reason) for token, mutation in named if token is not None]


def _numbered(server: BranchServer) -> set[tuple[Token, str, int]]:
    """Return the token, the client and the number of each mutation of a member."""
    named = [(token_of(mutation.args), mutation.client, mutation.id) for mutation in server.committed()]
    return {(token, client, id) for token, client, id in named if token is not None}


def _plain(value: object) -> object:
    """Return a value with lists in place of tuples, since JSON has no tuples."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
