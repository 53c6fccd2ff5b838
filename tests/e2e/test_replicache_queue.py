"""Stories of the real Replicache client, with a server that queues the client's pushes for a worker."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from stratalog.server.application import Application
from stratalog.store import open_store
from stratalog.worker.worker import Worker
from tests.e2e.serving import tell
from tests.e2e.test_replicache import HERE, Collecting, node, serving
from tests.threads import join_all, start_all

__all__ = ["node"]

STORIES = [
    "aPokeMakesAClientPullNewChanges",
    "offlineEditsAreRebased",
    "rejectedChangesAreUndone",
    "mutationsWithALostAnswerAreAppliedOnce",
    "aClientOfACollectedGroupLosesItsStateAndStartsAgain",
    "aRecreatedDocumentReplacesTheClientState",
]


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    """The URL of the documents of a server that queues all pushes for a running worker."""
    with open_store("memory:") as store:
        queued = Application(queued=lambda organisation, document: True)
        worker = Worker(store)
        threads = start_all([worker.run])
        try:
            with serving(Collecting(store, queued)) as url:
                yield url
        finally:
            worker.stop()
            join_all(threads)


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_with_the_real_client_over_the_queue(story: str, node: str, documents: str) -> None:
    url = f"{documents}/{story}"
    urlopen(Request(url, method="PUT")).close()
    tell(HERE, node, url, story)
