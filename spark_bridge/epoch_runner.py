"""Runs the epochs of a stage in Spark, on threads of their own."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any

from ..operators.base import OperatorContext, Work
from ..telemetry import logs
from .epoch_trace import EpochParts, traced_epoch
from .session import SparkSessionLease

_START_GRACE_S = 1.0
"""The start of the session notices by itself that it takes too long, and knows more about why."""

_groups = itertools.count(1)

EpochJob = Callable[[Any, EpochParts], Any]
"""Does the work of an epoch in a Spark session, and returns the results."""


class EpochRunner:
    """The threads of one stage. They hand over results, and what fails, on the task's loop.

    Args:
        context: Of the stage.
        lease: Of the session; it is released by `close`.
        threads: How many epochs run at once.
        start_timeout_s: How long to wait for the session.
    """

    def __init__(
        self, context: OperatorContext, lease: SparkSessionLease, threads: int, start_timeout_s: float
    ) -> None:
        self._context = context
        self._lease = lease
        self._threads = threads
        self._start_timeout_s = start_timeout_s
        self._jobs: queue.SimpleQueue[tuple[EpochJob, int, int, Callable[[Any], None]] | None] = (
            queue.SimpleQueue()
        )
        self._is_closed = False
        self._running: dict[str, Any] = {}
        self._log_context = logs.current()

    def start(self, started: Callable[[], None]) -> None:
        """Wait for the session in the background, then call `started`."""
        self._thread(lambda: self._await_session(started), "session")
        for number in range(self._threads):
            self._thread(functools.partial(self._work, f"tidegate-{number}"), f"epochs-{number}")

    def submit(self, number: int, job: EpochJob, records: int, finished: Callable[[Any], None]) -> None:
        """Run the job of an epoch in Spark.

        Args:
            number: Of the epoch. Spark's web UI shows it.
            job: Does the work.
            records: How many records the epoch has.
            finished: To be called with the results, on the task's loop.
        """
        self._jobs.put((job, number, records, finished))

    def close(self) -> None:
        """Cancel what runs. Results that arrive later are dropped."""
        self._is_closed = True
        for _ in range(self._threads):
            self._jobs.put(None)
        for group, session in list(self._running.items()):
            # The session may have been lost.
            with contextlib.suppress(Exception):
                session.sparkContext.cancelJobGroup(group)
        self._lease.release()

    def _thread(self, target: Callable[[], None], name: str) -> None:
        def run() -> None:
            logs.enter(self._log_context)
            target()

        # A daemon: a function that blocks must not keep the process from ending.
        threading.Thread(target=run, name=f"tidegate-spark-{name}", daemon=True).start()

    def _mail(self, action: Callable[[], None]) -> None:
        if not self._is_closed:
            self._context.mailbox(lambda: None if self._is_closed else action())

    def _await_session(self, started: Callable[[], None]) -> None:
        try:
            self._lease.session(self._start_timeout_s + _START_GRACE_S)
        except Exception as error:
            self._mail(_raising(error))
        else:
            self._mail(started)

    def _work(self, pool: str) -> None:
        while (entry := self._jobs.get()) is not None:
            job, number, records, finished = entry
            traced: list[Work] = []
            try:
                results = self._run(job, number, records, pool, traced)
            except Exception as error:
                self._mail(_raising(error))
            else:
                self._mail(self._delivery(finished, results, traced))

    def _delivery(
        self, finished: Callable[[Any], None], results: Any, traced: list[Work]
    ) -> Callable[[], None]:
        def deliver() -> None:
            for work in traced:
                self._context.trace_work(work)
            finished(results)

        return deliver

    def _run(self, job: EpochJob, number: int, records: int, pool: str, traced: list[Work]) -> Any:
        session = self._lease.session()
        group = f"tidegate-{self._context.operator_uid}-{next(_groups)}"
        session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        self._running[group] = session
        try:
            with traced_epoch(session, self._context, group, number, records, traced.append) as parts:
                return job(session, parts)
        finally:
            del self._running[group]


def _raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail
