"""The HTML frame of the server's own pages, and the page that shows an error to a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["HEADERS", "HTML", "OWN_CONNECTIONS", "PAGE_HEADERS", "POLICY", "error_page", "framed", "is_asked_by_person"]

HTML = "text/html"
XHTML = "application/xhtml+xml"
OWN_CONNECTIONS = "connect-src 'self'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    f"{OWN_CONNECTIONS}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of pages: a page loads scripts, styles and images from its own server only."""

HEADERS = {"Cache-Control": "no-cache", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": POLICY}
_PAGE = """\
<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>{title}</title>
    <link rel="icon" href="/web/home/icon.svg" />
    <link rel="stylesheet" href="/web/theme/base.css" />
    <link rel="stylesheet" href="/web/home/home.css" />
    <script src="/web/theme/theme.js"></script>
  </head>
  <body>
    <header>
      <h1>{heading}</h1>
      <button id="scheme" type="button" class="quiet icon" aria-label="Light or dark"></button>
    </header>
    <main>
{main}
    </main>
  </body>
</html>
"""
_ERRORS = {
    401: ("This address needs a token", "Open the page that you need, and give it your token."),
    403: ("You may not open this address", ""),
    404: ("There is no page at this address", "Check the address for a mistyped letter."),
}


def is_asked_by_person(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks for a page that a person has opened.

    Browsers then name HTML first, and XHTML too. Some programs name HTML first by default, such as those with Java's
    `HttpURLConnection`, but not XHTML.
    """
    accept = headers.get("accept", "").lstrip().lower()
    return method in ("GET", "HEAD") and accept.startswith(HTML) and XHTML in accept


def error_page(status: int, message: str = "") -> tuple[str, dict[str, str]]:
    """Return the page of an error and its headers. The page has the status's meaning, ``message``, and a way on."""
    heading, advice = _ERRORS.get(status, ("The server could not show this address", ""))
    sentence = f"{message[:1].upper()}{message[1:]}." if message else ""
    texts = [f"<p>{escape(text)}</p>" for text in (sentence, advice) if text]
    page = framed(heading, escape(heading), [*texts, '<p><a href="/">The pages of this server</a></p>'])
    # Programs get another body from the same address, so a cache may not keep the page.
    return page, {**PAGE_HEADERS, "Cache-Control": "no-store"}


def framed(title: str, heading: str, parts: Sequence[str]) -> str:
    """Return a page. ``title`` is plain text; ``heading`` and ``parts`` are HTML."""
    return _PAGE.format(title=escape(title), heading=heading, main="\n".join(parts))
