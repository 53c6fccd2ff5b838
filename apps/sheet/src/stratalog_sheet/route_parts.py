"""Route parts: the kinds of the spreadsheet's routes, and the values that a route gets."""

from __future__ import annotations

from functools import partial
from typing import Any

from litestar import Request, delete, get, post
from litestar.di import NamedDependency

from stratalog.errors import NotFound
from stratalog.limits import AUTHOR_BYTES_MAX
from stratalog.server import PROBLEMS, Name, Principal, Text
from stratalog_sheet.sheet import Sheet
from stratalog_sheet.sheets import Sheets
from stratalog_sheet.warm_sheets import EngineTurns

__all__ = [
    "JSON",
    "Asked",
    "Opened",
    "Signer",
    "Turns",
    "Warm",
    "computing",
    "deleting",
    "opened_sheet",
    "signer_of",
    "writing",
]

Asked = Request[Principal, Any, Any]
JSON = "application/json"


def opened_sheet(sheets: Warm, organisation: Name, log: Name, incarnation: Text = "") -> Sheet:
    """Return the sheet of that name. Raises NotFound if ``incarnation`` is given and is not the sheet's incarnation."""
    sheet = sheets.open(organisation, log)
    if incarnation not in ("", sheet.log.record.incarnation):
        raise NotFound("the sheet was deleted, and its name was reused", organisation=organisation, name=log)
    return sheet


def signer_of(request: Asked, author: Text = "") -> str:
    """Return the author of a write: the principal's author, or else the author that the caller states."""
    name = request.user.author or author
    return name.encode(errors="ignore")[:AUTHOR_BYTES_MAX].decode(errors="ignore")


Warm = NamedDependency[Sheets]
Turns = NamedDependency[EngineTurns]
Opened = NamedDependency[Sheet]
Signer = NamedDependency[str]
computing = partial(get, opt={"action": "read"}, responses=PROBLEMS)
writing = partial(post, opt={"action": "write"}, status_code=200, responses=PROBLEMS)
deleting = partial(delete, opt={"action": "delete"}, status_code=204, responses=PROBLEMS)
