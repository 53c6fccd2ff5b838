"""Web tokens: JSON Web Tokens of a trusted issuer, whose public keys are fetched from a JWKS address.

The server's operator sets the algorithms, and the server never takes them from a token. Symmetric algorithms and
``none`` cannot be chosen, so a public key can never serve as a shared secret (RFC 8725, sections 2.1 and 3.1).
"""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
import msgspec

from stratalog.clock import Clock, SystemClock
from stratalog.errors import Invalid, Unavailable
from stratalog.limits import (
    TOKEN_KEYS_BYTES_MAX,
    TOKEN_KEYS_FETCH_SECONDS_MAX,
    TOKEN_KEYS_REFETCH_SECONDS_MIN,
    TOKEN_KEYS_SECONDS_MAX,
)
from stratalog.process_fork import close_in_child
from stratalog.server.security import Principal
from stratalog.urls import split_http_url

__all__ = ["WebTokens", "principal_from_claims"]

ALGORITHMS_KNOWN = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
_log = logging.getLogger("stratalog.server")
Fetch = Callable[[], Mapping[str, Any]]


def principal_from_claims(claims: Mapping[str, Any]) -> Principal | None:
    """Return the principal of claims. Return None if ``sub`` is missing, empty or no text, or if ``name`` is no text.

    Any ``read_only`` claim other than false makes the principal read-only.
    """
    subject, name = claims.get("sub"), claims.get("name", "")
    if not isinstance(subject, str) or not subject or not isinstance(name, str):
        return None
    read_only = claims.get("read_only", False) is not False
    expires_ms = int(claims["exp"]) * 1000 if "exp" in claims else None
    return Principal(id=subject, name=name, read_only=read_only, expires_ms=expires_ms, claims=claims)


class WebTokens:
    """An `authenticate` for tokens of one issuer, meant for one audience. Safe to call from many threads.

    ``keys`` is the https address of a JWKS document, or a function that fetches such a document. Keys are cached for an
    hour. A token that names an unknown key causes a new fetch, at most once a minute for all such tokens. Until a fetch
    succeeds, each token that names a key causes a fetch. ``leeway_seconds`` bounds the difference between the issuer's
    clock and the server's: a token is accepted for this time after it expired, and the ``expires_ms`` of each principal
    is later by this time.
    """

    def __init__(
        self,
        keys: str | Fetch,
        *,
        algorithms: Sequence[str],
        audience: str,
        issuer: str,
        leeway_seconds: float = 30,
        principal: Callable[[Mapping[str, Any]], Principal | None] = principal_from_claims,
        clock: Clock | None = None,
    ) -> None:
        if not algorithms or not set(algorithms) <= ALGORITHMS_KNOWN:
            known = ", ".join(sorted(ALGORITHMS_KNOWN))
            raise Invalid("name one or more asymmetric algorithms", value=list(algorithms), known=known)
        if not audience or not issuer:
            raise Invalid("give an audience and an issuer for tokens")
        self._algorithms = list(algorithms)
        self._audience = audience
        self._issuer = issuer
        self._leeway = leeway_seconds
        self._principal = principal
        self._keys = _Keys(_fetch_from(keys) if isinstance(keys, str) else keys, clock or SystemClock())

    def __call__(self, token: str) -> Principal | None:
        """Return the token's principal, or None for an invalid token. Raises Unavailable if no key can be fetched."""
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(header.get("kid"), header.get("alg"))
            principal = None if key is None else self._principal(self._claims(token, key))
        except jwt.PyJWTError:
            return None
        if principal is None or principal.expires_ms is None:
            return principal
        # The token is accepted until then. Without the leeway, a live connection that it may begin would end at once.
        return msgspec.structs.replace(principal, expires_ms=principal.expires_ms + round(self._leeway * 1000))

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        options: Any = {"require": ["exp", "sub", "aud", "iss"]}
        return jwt.decode(
            token,
            key,
            algorithms=self._algorithms,
            audience=self._audience,
            issuer=self._issuer,
            leeway=self._leeway,
            options=options,
        )


class _Keys:
    """A cache of the issuer's public keys by id."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_ms: int | None = None

    def find(self, id: object, algorithm: object) -> jwt.PyJWK | None:
        """Return the key with this id if the key is for this algorithm, else None.

        Raises Unavailable as `_refresh` does.
        """
        if not isinstance(id, str):
            return None
        # Check again under the lock: another thread may have fetched the keys while this thread waited for the lock.
        if self._is_due(id):
            with self._lock:
                if self._is_due(id):
                    self._refresh()
        key = self._keys.get(id)
        return key if key is not None and key.algorithm_name == algorithm else None

    def _is_due(self, id: str) -> bool:
        seconds = TOKEN_KEYS_SECONDS_MAX if id in self._keys else TOKEN_KEYS_REFETCH_SECONDS_MIN
        return self._fetched_ms is None or self._clock.boot_ms() - self._fetched_ms >= seconds * 1000

    def _refresh(self) -> None:
        """Fetch the keys. If the fetch fails, the known keys stay valid, and the next fetch waits as after a success.

        Without known keys a failure raises Unavailable, and the next call fetches again at once.
        """
        try:
            fetched = jwt.PyJWKSet.from_dict(dict(self._fetch()))
            self._keys = {key.key_id: key for key in fetched.keys if key.key_id}
        except Exception as exc:
            # A malformed response raises errors of http.client. A malformed key raises errors of several kinds. An
            # application's own function for fetching keys may raise any error.
            if not self._keys:
                raise Unavailable("the issuer's keys cannot be fetched", reason=type(exc).__name__) from exc
            _log.warning("the issuer's keys cannot be fetched: %r", exc)
        self._fetched_ms = self._clock.boot_ms()


def _fetch_from(address: str) -> Fetch:
    """Return a function that fetches from the address.

    Raises Invalid unless the address is https or on this machine.
    """
    parts = split_http_url(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1")):
        raise Invalid("keys must be fetched over https", value=address)

    opener = urllib.request.build_opener(_Straight)

    def fetch() -> Mapping[str, Any]:
        with opener.open(address, timeout=TOKEN_KEYS_FETCH_SECONDS_MAX) as answer:
            return msgspec.json.decode(answer.read(TOKEN_KEYS_BYTES_MAX), type=dict[str, Any])

    return fetch


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a redirection could lead to an address at which a third party can change the keys."""

    def redirect_request(self, *_: Any) -> None:
        return None
