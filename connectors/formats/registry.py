"""The part of a schema registry's interface that readers and writers need."""

from __future__ import annotations

import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from typing import Any, TypeVar

from ...common.errors import SerializationError

logger = logging.getLogger(__name__)

_V = TypeVar("_V")

_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 10.0
_PAUSES_S = (0.1, 0.4, 1.6)
_MOST_BYTES = 16 << 20
"""A longer answer is not read."""


class SchemaRegistry:
    """Asks a registry, and retries for a time.

    Args:
        url: Where it is.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def schema(self, schema_id: int) -> str:
        """The text of a schema.

        Raises:
            SerializationError: There is none, or the registry does not answer.
        """
        return self._value(f"/schemas/ids/{schema_id}", None, "schema", str)

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject; its id, also if it was registered before.

        Raises:
            SerializationError: The registry refuses it, or does not answer.
        """
        return self._value(f"/subjects/{subject}/versions", {"schema": schema}, "id", int)

    def _value(self, path: str, body: Any, name: str, kind: type[_V]) -> _V:
        """One field of an answer."""
        answer = self._ask(path, body)
        try:
            value = json.loads(answer)[name]
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self._wrong(path, answer) from error
        if not isinstance(value, kind):
            raise self._wrong(path, answer)
        return value

    def _wrong(self, path: str, answer: bytes) -> SerializationError:
        return SerializationError(
            f"the schema registry {self._url} answers {path} with {answer!r:.200} instead of a schema; "
            f"check the URL"
        )

    def _ask(self, path: str, body: Any) -> bytes:
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._answer(path, body)
            except urllib.error.HTTPError as error:
                text = _text_of(error)
                if error.code < 500 or pause_s is None:
                    raise SerializationError(
                        f"the schema registry {self._url} answers {path} with {error.code}: {text:.200}"
                    ) from error
            except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
                # The last two come from redirects to what is no URL.
                if pause_s is None:
                    raise SerializationError(
                        f"the schema registry {self._url} does not answer: {error}; check the URL"
                    ) from error
                logger.warning("the schema registry does not answer (%s); again in %g s", error, pause_s)
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _answer(self, path: str, body: Any) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": _TYPE, "Accept": _TYPE})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found: bytes = answer.read(_MOST_BYTES + 1)
        if len(found) > _MOST_BYTES:
            raise SerializationError(
                f"the schema registry {self._url} answers {path} with more than {_MOST_BYTES} bytes; "
                f"check the URL"
            )
        return found


def _text_of(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(1_000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as broken:
        return f"an answer that broke off ({broken})"
