"""The REST API over a real job in this process: its state, its actions, and its archive afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.common.errors import StateError
from tidegate.console.rest.archived_jobs import ArchivedJobs
from tidegate.console.rest.directory import AllJobs, LiveJobs
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret
from tidegate.datastream import KeyedProcessFunction, Source, SourceReader, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch
from tidegate.state import read_snapshot

from tests.console.rest.conftest import TOKEN


class Mark:
    """Whoever unpickles one of these makes a directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.path,))


class Words(Source):
    """Some words, and then nothing more, but no end either."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: Any) -> SourceReader:
        return Reader(list(splits))


class Reader(SourceReader):
    def __init__(self, positions: list[int]) -> None:
        self.positions = positions

    def poll(self, max_records: int) -> Batch | None:
        if not self.positions or self.positions[0] >= 30:
            return Batch([])
        self.positions = [self.positions[0] + 1]
        return Batch([f"word-{self.positions[0] % 7}"])

    def snapshot_state(self) -> list[int]:
        return self.positions


class Count(KeyedProcessFunction):
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.any = runtime_context.get_state(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.any.update(Mark(self.mark))
        yield value


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[httpx.Client]:
    """Somebody with the token of a console over a job that counts words."""
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "execution.checkpointing.interval": "1 h",
            "tidegate.checkpointing.random-initial-delay": "false",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
            "jobmanager.archive.fs.dir": str(tmp_path / "archive"),
            "pipeline.global-job-parameters": "api.key:hunter2",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_source(Words(), WatermarkStrategy.no_watermarks(), "words").uid("words")
    stream.key_by(lambda word: word, key_type=Types.STRING()).process(Count(str(tmp_path / "mark"))).uid(
        "count"
    ).print()
    client = env.execute_async("words")
    (tmp_path / "archive").mkdir(exist_ok=True)
    jobs = AllJobs([LiveJobs.of([client]), ArchivedJobs(str(tmp_path / "archive"))])
    settings = ServerSettings(port=0, secret=ConsoleSecret(TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        with (
            served(jobs, settings) as address,
            httpx.Client(
                base_url=f"{address}/v1/jobs/{client.get_job_id()}", headers=headers, timeout=60
            ) as http,
        ):
            _until(lambda: http.get("/live").json()["state"] == "RUNNING")
            yield http
    finally:
        client.close()


def _itself(operator: httpx.Client) -> str:
    """The address of the job, to which httpx would add a slash."""
    return str(operator.base_url).rstrip("/")


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline


def _done(operator: httpx.Client, kind: str, body: dict[str, Any], asked_at: str = "") -> Any:
    answer = operator.post(f"/{kind}", json=body)
    assert answer.status_code == 202, answer.text
    path = f"/{asked_at or kind}/{answer.json()['request-id']}"
    found: dict[str, Any] = {}

    def is_over() -> bool:
        found.update(operator.get(path).json())
        return bool(found["status"]["id"] == "COMPLETED")

    _until(is_over)
    return found["operation"]


def test_a_job_is_watched_checkpointed_looked_into_and_stopped(
    operator: httpx.Client, tmp_path: Path
) -> None:
    assert operator.get("/state").json()["note"] == "the job has no complete checkpoint"
    _until(lambda: operator.get("/live").json()["vertices"][0]["total_records_out"] == 30)
    assert _done(operator, "checkpoints", {})["checkpointId"] == 1
    state = operator.get("/state").json()
    (counts,) = [one for one in state["operators"] if one["uid"] == "count"]
    assert {one["name"]: one["kind"] for one in counts["states"]} == {"count": "value", "anything": "value"}
    query = {"uid": "count", "state": "count", "limit": 5}
    first = operator.get("/state/entries", params=query).json()
    second = operator.get("/state/entries", params={**query, "offset": 5}).json()
    assert (len(first["entries"]), first["is_last"]) == (5, False)
    assert (len(second["entries"]), second["is_last"]) == (2, True)
    found = {one["key"]: one["value"] for one in [*first["entries"], *second["entries"]]}
    assert found == {f"'word-{number}'": "5" if number in (1, 2) else "4" for number in range(7)}
    pickled = operator.get("/state/entries", params={"uid": "count", "state": "anything"}).json()
    assert {one["value"][:10] for one in pickled["entries"]} == {"<pickled, "}
    assert not (tmp_path / "mark").exists()
    newest = operator.get(_itself(operator)).json()["newest-checkpoint"]
    # Whoever trusts the job makes it, with the first key; with the second it is there.
    with pytest.raises(StateError, match="File exists"):
        next(read_snapshot(newest).keyed_state("count", "anything").entries(trusted=True))
    assert (tmp_path / "mark").exists()

    savepoint = _done(operator, "savepoints", {"target-directory": str(tmp_path / "savepoints")})
    assert Path(savepoint["location"]).parent == tmp_path / "savepoints"
    stopped = _done(operator, "stop", {}, asked_at="savepoints")
    assert stopped["failure-cause"] is None
    assert Path(stopped["location"]).is_relative_to(tmp_path / "savepoints")
    _until(lambda: operator.get("/live").json()["state"] == "FINISHED")
    assert operator.post("/stop", json={}).status_code == 409
    settings = operator.get("/config")
    assert "hunter2" not in settings.text
    assert "api.key" in settings.text


def test_a_job_is_cancelled_and_told_of_from_its_archive(operator: httpx.Client, tmp_path: Path) -> None:
    assert operator.patch(_itself(operator), params={"mode": "cancel"}).status_code == 202
    _until(lambda: operator.get("/live").json()["state"] == "CANCELED")
    job_id = _itself(operator).rsplit("/", 1)[1]
    _until(lambda: (tmp_path / "archive" / job_id).exists())
    archived = ArchivedJobs(str(tmp_path / "archive")).find(job_id)
    assert archived is not None
    live = operator.get("/live").json()
    assert archived.details.ended_ms == live["end_time"]
