"""The server treats the handlers of an application like its own handlers."""

from __future__ import annotations

from litestar import get

from stratalog.log import Event
from stratalog.server.application import Application
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.service import Served, posting, reading
from tests.server.api import problem, serving

TOKENS = {"full": Principal(id="ann"), "look": Principal(id="bob", read_only=True)}


@reading(PREFIX + "/logs/{log:str}/length", opt={"action": "read"})
def length(service: Served, organisation: Name, log: Name) -> int:
    return service.log(organisation, log).head().version


@posting(PREFIX + "/logs/{log:str}/note", opt={"action": "write"})
def note(service: Served, organisation: Name, log: Name) -> int:
    return service.log(organisation, log).append([Event("noted", None)]).version


@get("/web/notes/", media_type="text/html")
async def page() -> str:
    return "<p>notes</p>"


APPLICATION = Application(routes=[length, note, page], authenticate=StaticTokens(TOKENS))
NOTED = "/v1/organisations/acme/logs/notes"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_route_of_an_application_reads_and_writes_the_store() -> None:
    with serving(APPLICATION) as client:
        client.put(NOTED, headers=bearer("full"))
        assert client.post(f"{NOTED}/note", headers=bearer("full")).json() == 1
        assert client.get(f"{NOTED}/length", headers=bearer("look")).json() == 1


def test_a_route_of_an_application_requires_its_token_and_its_action() -> None:
    with serving(APPLICATION) as client:
        client.put(NOTED, headers=bearer("full"))
        assert problem(client.get(f"{NOTED}/length")) == (401, "unauthenticated")
        assert problem(client.post(f"{NOTED}/note", headers=bearer("look"))) == (403, "forbidden")


def test_a_page_of_an_application_is_open() -> None:
    with serving(APPLICATION) as client:
        assert client.get("/web/notes/").text == "<p>notes</p>"
