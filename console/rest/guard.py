"""What stands in front of every request: who may ask, for how much, and how long.

* On loopback, `Host` must name this machine: else a page elsewhere could reach the console under a name of
  its own (DNS rebinding).
* Actions, and everything when the console listens beyond loopback, need a token. A browser sends it only
  where a script of the page puts it in, so that other pages cannot act through it; `Origin` is checked too.
* Answers say to browsers that nothing may be framed, sniffed, cached or loaded from elsewhere.

The files of the page hold no data and need no token: a browser could not send one for them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .tokens import ConsoleSecret, TokenCheck

logger = logging.getLogger(__name__)

API = "/v1/"
MAX_BODY_BYTES = 64 << 10
MAX_ADDRESS_BYTES = 8 << 10
MAX_HEADER_BYTES = 32 << 10
MAX_REQUESTS = 200
"""At a time; others are refused, so that a console that is too slow for them says so."""
_TOO_LARGE = f"a request may have {MAX_BODY_BYTES} bytes at most"
_READING = ("GET", "HEAD")
_ACTIONS = ("DELETE", "OPTIONS", "PATCH", "POST", "PUT")
_JOB_ID = re.compile("[0-9a-f]{32}")
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True)
class Access:
    """Who may ask what.

    Attributes:
        secret: What tokens are checked against; without it no action is possible.
        is_open: Whether reading needs no token.
        hosts: Names under which the console may be asked for; `None` for any.
        savepoint_roots: Where savepoints may go beside the job's own directory for them.
        timeout_s: How long a request may take.
    """

    secret: ConsoleSecret | None = None
    is_open: bool = True
    hosts: frozenset[str] | None = frozenset({"localhost", "127.0.0.1", "::1"})
    savepoint_roots: tuple[str, ...] = ()
    timeout_s: float = 60.0


class _Refused(Exception):
    """Why a request is not answered."""

    def __init__(self, status_code: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Guard:
    """The ASGI application in front of the application.

    Args:
        now_s: The clock that tokens end by, in seconds since the Unix epoch.
    """

    def __init__(self, app: ASGIApp, access: Access, now_s: Callable[[], float] = time.time) -> None:
        self._app = app
        self._access = access
        self._now_s = now_s
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no web sockets here.
            return
        answer = _Answer(scope, send)
        self._requests += 1
        try:
            if self._requests > MAX_REQUESTS:
                raise _Refused(
                    503, f"{MAX_REQUESTS} requests are being answered; try again", connection="close"
                )
            self._check(scope, Headers(scope=scope))
            bounded = _BoundedBody(receive)
            await asyncio.wait_for(self._app(scope, bounded, answer), self._access.timeout_s)
        except _Refused as refused:
            await answer.refuse(refused.status_code, str(refused), receive, refused.headers)
        except asyncio.TimeoutError:
            await answer.refuse(504, f"this took longer than {self._access.timeout_s:g} s", receive, {})
        except Exception:
            # The application has logged it and answered.
            await answer.refuse(500, "this failed in an unexpected way", receive, {})
        finally:
            self._requests -= 1
            if scope["method"] not in _READING:
                logger.info("%s: %s", _action(scope), answer.status_code)

    def _check(self, scope: Scope, headers: Headers) -> None:
        _check_size(scope)
        self._check_host(headers)
        is_action = scope["method"] not in _READING
        if is_action:
            _check_origin(headers)
        if scope["path"].startswith(API) and (is_action or not self._access.is_open):
            self._check_token(headers)
        length = headers.get("content-length", "0")
        # Beyond ASCII there are digits that int() does not know.
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > MAX_BODY_BYTES:
            raise _Refused(413, _TOO_LARGE, connection="close")

    def _check_host(self, headers: Headers) -> None:
        if self._access.hosts is None:
            return
        name = _host_name(headers.get("host", ""))
        if name not in self._access.hosts:
            raise _Refused(421, "this console answers under the names of its own machine only")

    def _check_token(self, headers: Headers) -> None:
        if self._access.secret is None:
            raise _Refused(403, "this console was started without a token, so it only shows")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _Refused(
                401,
                "this needs a token: open the address that the console printed, or send the header "
                "Authorization: Bearer <token>",
                www_authenticate="Bearer",
            )
        outcome = self._access.secret.check(token.strip(), self._now_s())
        if outcome is TokenCheck.EXPIRED:
            raise _Refused(401, "the token has expired; ask for another", www_authenticate=_INVALID)
        if outcome is not TokenCheck.VALID:
            raise _Refused(401, "the token is wrong", www_authenticate=_INVALID)


_INVALID = 'Bearer error="invalid_token"'


def _check_size(scope: Scope) -> None:
    """The server bounds what has not arrived as a whole; what has is bounded here."""
    if not scope["path"].isprintable() or not scope["query_string"].isascii():
        raise _Refused(400, "the address holds characters that no address has")
    if len(scope["path"]) + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
        raise _Refused(400, f"an address may have {MAX_ADDRESS_BYTES} bytes at most")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise _Refused(400, f"the headers may have {MAX_HEADER_BYTES} bytes at most")


def _check_origin(headers: Headers) -> None:
    """A browser says where the page is from that acts; programs say nothing."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site")
    is_own = origin is None or _network_location(origin) == headers.get("host", "").lower() != ""
    if not is_own or site not in (None, "same-origin", "none"):
        raise _Refused(
            403, "actions are taken from the console's own page, or from outside of browsers, only"
        )


def _network_location(origin: str) -> str:
    """The host and port in an `Origin` header; empty if it is not an address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """The name in a `Host` header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _action(scope: Scope) -> str:
    """What was asked for, in words that are known: anything else may be a token in the wrong place."""
    route, job_id = scope.get("route"), scope.get("path_params", {}).get("jobid", "")
    path = getattr(route, "path", "an unknown address").replace(":hex", "")
    method = scope["method"] if scope["method"] in _ACTIONS else "an unknown method"
    return f"{method} {path}" + (f" of job {job_id}" if _JOB_ID.fullmatch(job_id) else "")


class _BoundedBody:
    """Receives a body up to the limit, whatever its header said."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received_bytes = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            if self._received_bytes > MAX_BODY_BYTES:
                # Of FastAPI's own kind: any other is to it a body that cannot be parsed.
                raise HTTPException(413, _TOO_LARGE, {"connection": "close"})
        return message


class _Answer:
    """Sends an answer with the headers that every answer has."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status_code: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status_code = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            if self._scope["path"].startswith(API):
                headers["cache-control"] = "no-store"
            else:
                # The page changes with every release, under the same names.
                headers["cache-control"] = "no-cache"
        await self._send(message)

    async def refuse(self, status_code: int, text: str, receive: Receive, headers: Mapping[str, str]) -> None:
        """Answer that there is no answer, unless one is under way."""
        if self.status_code is None:
            response = JSONResponse({"errors": [text]}, status_code, dict(headers))
            await response(self._scope, receive, self)
