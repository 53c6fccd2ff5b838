"""HTTP calls that wait long for an answer. By default httpx waits for five seconds, which a busy machine can exceed."""

from __future__ import annotations

from functools import partial

import httpx

__all__ = ["SECONDS_MAX", "Client", "delete", "get", "post", "put"]

SECONDS_MAX = 120

get = partial(httpx.get, timeout=SECONDS_MAX)
put = partial(httpx.put, timeout=SECONDS_MAX)
post = partial(httpx.post, timeout=SECONDS_MAX)
delete = partial(httpx.delete, timeout=SECONDS_MAX)
Client = partial(httpx.Client, timeout=SECONDS_MAX)
