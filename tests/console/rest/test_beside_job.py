"""A local job with `rest.port` serves its own console as long as it runs."""

from __future__ import annotations

import logging
import re
import time

import httpx
import pytest
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch


class Endless(Source):
    """Nothing, for ever."""

    def create_splits(self, parallelism: int) -> list[int]:
        return []

    def create_reader(self, splits: list[int]) -> SourceReader:
        return Waiting()


class Waiting(SourceReader):
    def poll(self, max_records: int) -> Batch | None:
        return Batch([])

    def snapshot_state(self) -> list[int]:
        return []


def _environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.target": "local", **settings})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_a_local_job_serves_itself_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    env = _environment(**{"rest.port": "0"})
    env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "nothing").print()
    with caplog.at_level(logging.WARNING):
        client = env.execute_async("alone")
        try:
            deadline = time.monotonic() + 60
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", caplog.text)):
                assert time.monotonic() < deadline
            address = found[0]
            (job,) = httpx.get(f"{address}/v1/jobs/overview", timeout=60).json()["jobs"]
            assert (job["jid"], job["name"]) == (str(client.get_job_id()), "alone")
            answer = httpx.post(f"{address}/v1/jobs/{job['jid']}/stop", json={}, timeout=60)
            assert answer.status_code == 403
        finally:
            client.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, timeout=60)


def test_a_local_job_that_would_listen_beyond_this_machine_needs_a_token() -> None:
    env = _environment(**{"rest.port": "0", "rest.bind-address": "0.0.0.0"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="TIDEGATE_CONSOLE_TOKEN"):
        env.execute()
