"""The part of a schema registry's interface that readers and writers need."""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from typing import Any

from ...common.errors import SerializationError

logger = logging.getLogger(__name__)

_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 10.0
_PAUSES_S = (0.1, 0.4, 1.6)


class SchemaRegistry:
    """Asks a registry, with some patience.

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
        return str(self._ask(f"/schemas/ids/{schema_id}", None)["schema"])

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject; its id, also if it was registered before."""
        return int(self._ask(f"/subjects/{subject}/versions", {"schema": schema})["id"])

    def _ask(self, path: str, body: Any) -> Any:
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._answer(path, body)
            except urllib.error.HTTPError as error:
                text = error.read().decode(errors="replace")
                if error.code < 500 or pause_s is None:
                    raise SerializationError(
                        f"the schema registry {self._url} answers {path} with {error.code}: {text:.200}"
                    ) from error
            except OSError as error:
                if pause_s is None:
                    raise SerializationError(
                        f"the schema registry {self._url} does not answer: {error}; check the URL"
                    ) from error
                logger.warning("the schema registry does not answer (%s); again in %g s", error, pause_s)
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _answer(self, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": _TYPE, "Accept": _TYPE})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
