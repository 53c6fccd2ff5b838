"""The background work that follows a commit by a route."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stratalog.server.errors import Refused
from stratalog_sheet import Sheet
from stratalog_sheet.commits import SNAPSHOT_CHECK_VERSIONS, announce
from stratalog_sheet.events import SheetChange


class Full:
    """Threads of engines that are all busy."""

    async def run(self, name: tuple[str, str], function: Callable[[], Any]) -> Any:
        raise Refused(503, "busy", "too many calls wait")


def test_a_snapshot_refused_by_busy_engine_threads_is_only_logged(
    sheet: Sheet, caplog: pytest.LogCaptureFixture
) -> None:
    service = SimpleNamespace(hub=SimpleNamespace(poke=lambda *_: None))
    change = SheetChange(SNAPSHOT_CHECK_VERSIONS, 0, "", "named")
    unhandled: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        announce(cast(Any, service), cast(Any, Full()), sheet, change)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert [type(error) for error in await asyncio.gather(*others, return_exceptions=True)] == [type(None)]

    with caplog.at_level(logging.WARNING, "stratalog.sheet"):
        asyncio.run(story())
    assert unhandled == []
    assert "snapshot could not be saved" in caplog.text
