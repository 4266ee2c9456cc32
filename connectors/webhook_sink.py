"""A sink that posts records to a web service, in batches with names by which it can tell repetitions."""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from ..common.errors import ConfigurationError, TidegateError, UserCodeError
from ..operators.base import OperatorContext
from ..operators.sinks import Committer, Sink, SinkWriter

logger = logging.getLogger(__name__)

_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0


class WebhookError(TidegateError):
    """A web service refused a request, or did not answer. The cause is chained."""


@dataclass(frozen=True, slots=True)
class _Hook:
    url: str
    headers: Mapping[str, str]
    batch_rows: int
    encode: Callable[[list[Any]], bytes]
    timeout_s: float
    retry_timeout_s: float


def _as_json(records: list[Any]) -> bytes:
    return json.dumps(records, ensure_ascii=False, default=str).encode()


class WebhookSink(Sink):
    """Posts batches of records, each with the header `Idempotency-Key`.

    With checkpoints, the records of an epoch are kept in the checkpoint, and posted when it is complete.
    After a failure a batch may be posted again, with the same key and the same body: a service that remembers
    the keys has every record exactly once, any other at least once. Without checkpoints they are posted at
    once.

    Answers of 408, 425, 429 and 5xx, and connections that fail, are tried again with growing pauses, or after
    what `Retry-After` says; other answers but 2xx fail the job.

    Args:
        url: Where to; `http` or `https`.
        headers: More headers, such as `Authorization`.
        batch_rows: The most records of a request.
        encode: Makes the body of a list of records; by default a JSON array.
        timeout_s: How long to wait for an answer.
        retry_timeout_s: How long to try a request again.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        batch_rows: int = 100,
        encode: Callable[[list[Any]], bytes] = _as_json,
        timeout_s: float = 10.0,
        retry_timeout_s: float = 60.0,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{url!r} is not the URL of a web service: http://… or https://…")
        if batch_rows < 1 or not timeout_s > 0 or not retry_timeout_s >= 0:
            raise ConfigurationError("the webhook sink's batch_rows start at 1, its times must be positive")
        every = {"Content-Type": "application/json", **(headers or {})}
        self._hook = _Hook(url, every, batch_rows, encode, timeout_s, retry_timeout_s)

    def create_writer(self) -> SinkWriter:
        return _WebhookWriter(self._hook)

    def create_committer(self) -> Committer:
        return _WebhookCommitter(self._hook)


class _WebhookWriter(SinkWriter):
    """Makes requests of records; a request is a key and a body."""

    def __init__(self, hook: _Hook) -> None:
        self._hook = hook
        self._requests: list[tuple[str, bytes]] = []
        self._count = 0

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        # With the job and the attempt: no two requests of different records ever have one key.
        self._prefix = f"{context.job_id}/{context.operator_uid}/{context.subtask_index}/{context.attempt}"
        self._posts_at_once = not context.expects_checkpoints

    def write_batch(self, values: list[Any]) -> None:
        for first in range(0, len(values), self._hook.batch_rows):
            records = values[first : first + self._hook.batch_rows]
            try:
                body = self._hook.encode(records)
            except Exception as error:
                raise UserCodeError(
                    f"{self._where}: making a request of the records {records!r:.300} failed: {error}"
                ) from error
            self._count += 1
            self._requests.append((f"{self._prefix}/{self._count}", body))
        if self._posts_at_once:
            for key, body in self.prepare_commit():
                _post(self._hook, key, body, self._where)

    def prepare_commit(self) -> list[Any]:
        requests, self._requests = self._requests, []
        return requests


class _WebhookCommitter(Committer):
    def __init__(self, hook: _Hook) -> None:
        self._hook = hook

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"

    def commit(self, committables: list[tuple[str, bytes]]) -> None:
        for key, body in committables:
            _post(self._hook, key, body, self._where)


def _post(hook: _Hook, key: str, body: bytes, where: str) -> None:
    headers = {**hook.headers, "Idempotency-Key": key}
    deadline = time.monotonic() + hook.retry_timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        wait_s = pause_s
        try:
            request = urllib.request.Request(hook.url, data=body, headers=headers, method="POST")
            with urllib.request.urlopen(request, timeout=hook.timeout_s):
                return
        except urllib.error.HTTPError as error:
            cause: Exception = error
            if error.code not in _RETRIED_STATUS:
                answer = _answer_of(error)
                raise WebhookError(
                    f"{where}: {_shown(hook.url)} refused a request of {len(body)} bytes with {error.code} "
                    f"{error.reason}: {answer}; correct the URL, the headers or the body"
                ) from error
            after = error.headers.get("Retry-After", "")
            wait_s = max(pause_s, float(after)) if after.isdecimal() else pause_s
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            # The last two come from redirects to what is no URL.
            cause = error
        if time.monotonic() + wait_s > deadline:
            raise WebhookError(
                f"{where}: {_shown(hook.url)} did not take a request for {hook.retry_timeout_s:g} seconds, "
                f"the last time because: {cause}; see whether the service runs"
            ) from cause
        logger.warning("%s: posting failed (%s); trying again in %.1f s", where, cause, wait_s)
        time.sleep(wait_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _answer_of(error: urllib.error.HTTPError) -> str:
    """The beginning of what a service answers with an error."""
    try:
        return error.read(300).decode("utf-8", "replace")
    except (OSError, HTTPException) as broken:
        return f"its answer broke off ({broken})"


def _shown(url: str) -> str:
    """The URL without what may be secret."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
