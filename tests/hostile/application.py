"""The served application: honest principals, a hostile principal, and sheets if ``HOSTILE_SHEETS`` is set."""

from __future__ import annotations

import os

from stratalog.server.application import Application
from stratalog.server.security import Action, Principal, StaticTokens

__all__ = ["HONEST_TOKENS", "HOSTILE_TOKEN", "app"]

HOSTILE_TOKEN = "token-of-mallory"
HONEST_TOKENS = tuple(f"token-of-honest-{number}" for number in range(10))

_tokens = StaticTokens(
    {token: Principal(id=token.removeprefix("token-of-")) for token in (*HONEST_TOKENS, HOSTILE_TOKEN)}
)


# The server calls a coroutine function on the event loop. These rules only compare names, so they need no thread.
async def _rules(principal: Principal, action: Action, organisation: str, name: str) -> bool:
    return organisation == ("evil" if principal.id == "mallory" else "acme")


if os.environ.get("HOSTILE_SHEETS"):
    from stratalog_sheet.http import application as sheets

    app = sheets(_tokens, _rules)
else:
    app = Application(authenticate=_tokens, authorize=_rules)
