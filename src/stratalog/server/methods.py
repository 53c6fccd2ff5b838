"""Methods: HEAD on each path that has GET, and the methods of a path in the header Allow (RFC 9110, 9.1 and 10.2.1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.routes import HTTPRoute
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from litestar.utils import normalize_path

__all__ = ["allow_header", "answers_head", "answers_options"]


def allow_header(methods: Collection[str]) -> str:
    """Return the value of the header Allow for a path whose handlers have these ``methods``."""
    # Litestar lists the handler of a WebSocket among the methods of its path.
    names = {method for method in methods if method.isupper()}
    return ", ".join(sorted(names | {"HEAD"} if "GET" in names else names))


def answers_head(app: ASGIApp, routes: Litestar) -> ASGIApp:
    """Wrap an application so that it answers HEAD as GET, without the body.

    HEAD stays HEAD if ``routes`` has its own handler for HEAD on the path, or an application mounted there.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["method"] != "HEAD" or _has_head(routes, scope):
            return await app(scope, receive, send)
        is_complete = False

        async def send_head(message: Message) -> None:
            nonlocal is_complete
            if message["type"] == "http.response.body":
                if is_complete:
                    return
                # The first part of the body ends the response: a stream of events has no last part.
                is_complete = True
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        # Do not copy the scope: the middleware reads what the handler sets in it.
        scope["method"] = "GET"
        try:
            await app(scope, receive, send_head)
        finally:
            scope["method"] = "HEAD"
        return None

    return call


def answers_options(app: ASGIApp) -> ASGIApp:
    """Wrap a handler so that OPTIONS names all methods of the path, unless the path has its own handler for OPTIONS.

    The answer of Litestar's generated handler lacks the methods of handlers that other routers registered for the path.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        is_own = not _is_generated(scope["route_handler"], HTTPRoute)
        if scope["type"] != ScopeType.HTTP or scope["method"] != "OPTIONS" or is_own:
            return await app(scope, receive, send)
        methods = _methods_of(scope["litestar_app"], scope["path_template"])
        headers = [(b"allow", allow_header(methods).encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    return call


def _has_head(app: Litestar, scope: HTTPScope) -> bool:
    path = normalize_path(scope["path"].removeprefix(scope.get("root_path", "")))
    try:
        _, handler, *_ = app.asgi_router.handle_routing(path=path, method="HEAD")
    except HTTPException:
        return False
    # Litestar's own handler for HEAD of a file omits headers that its handler for GET has.
    return not _is_generated(handler, create_static_files_router)


def _is_generated(handler: BaseRouteHandler, generator: Any) -> bool:
    """Return whether a handler was made by ``generator``, a class or function of Litestar."""
    return bool(getattr(handler.fn, "__module__", "") == generator.__module__)


def _methods_of(app: Litestar, template: str) -> set[str]:
    routes = (route for route in app.routes if isinstance(route, HTTPRoute) and route.path_format == template)
    return {str(method) for route in routes for method in route.methods}
