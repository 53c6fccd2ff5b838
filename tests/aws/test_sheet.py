"""Two browser windows on one sheet, through the functions that Lambda calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.apps.sheet.engine_files import install_engine
from tests.aws.deployed import Deployed
from tests.e2e.serving import find_chromium, node_with, tell
from tests.e2e.test_sheet import HERE

STORIES = ["twoWindowsShowWhatTheOtherDoes"]


@pytest.mark.parametrize("story", STORIES)
def test_in_the_browser(story: str, deployed: Deployed, tmp_path: Path) -> None:
    install_engine()
    node = node_with(HERE)
    deployed.serve(STRATALOG_APPLICATION="stratalog.apps.sheet.http:app")
    tell(HERE, node, deployed.gateway.url, story, find_chromium(), str(tmp_path))
    assert deployed.api.calls > 10
    assert deployed.gateway.posts > 0
