"""Two browser windows share a sheet that Lambda functions serve behind a local gateway."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from apps.sheet.tests.test_e2e import HERE
from stratalog_sheet.engine_files import install_engine
from tests.aws.conftest import deployed
from tests.aws.deployed import Deployed
from tests.e2e.serving import Storyteller, node_with

__all__ = ["deployed"]

STORIES = ["twoWindowsShowEditsAndSelectionsOfEachUser"]


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_in_the_browser(story: str, deployed: Deployed, tmp_path: Path) -> None:
    install_engine()
    deployed.serve(STRATALOG_APPLICATION="sheet")
    with closing(Storyteller(HERE, node_with(HERE))) as storyteller:
        storyteller.tell(deployed.gateway.url, story, tmp_path)
    assert deployed.api.calls > 10
    assert deployed.gateway.posts
