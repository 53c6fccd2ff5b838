"""Stories of the real Replicache client, with a server that queues its pushes for a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from stratalog.server.application import Application
from stratalog.store import open_store
from stratalog.worker.worker import Worker
from tests.e2e.serving import tell
from tests.e2e.test_replicache import HERE, Collecting, node, serving

__all__ = ["node"]

STORIES = [
    "pokesBringWhatIsNew",
    "offlineEditsAreRebased",
    "rejectionsAreTakenBack",
    "lostAnswersAreAppliedOnce",
    "aCollectedGroupBeginsAgain",
    "aDocumentMadeAnewReplacesTheState",
]


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    """The URL of the documents of a server that queues all pushes for a running worker."""
    with open_store("memory:") as store:
        queued = Application(queued=lambda organisation, document: True)
        worker = Worker(store)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            with serving(Collecting(store, queued)) as url:
                yield url
        finally:
            worker.stop()
            thread.join()


@pytest.mark.parametrize("story", STORIES)
def test_the_real_client(story: str, node: str, documents: str) -> None:
    url = f"{documents}/{story}"
    urlopen(Request(url, method="PUT")).close()
    tell(HERE, node, url, story)
