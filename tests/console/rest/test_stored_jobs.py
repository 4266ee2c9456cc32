"""A job that left nothing but its checkpoints is told of from the newest of them."""

from __future__ import annotations

from pathlib import Path

import httpx
from tidegate.common import Configuration
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.stored_jobs import StoredJobs
from tidegate.datastream import StreamExecutionEnvironment


def test_history_and_state_of_a_job_come_from_its_newest_checkpoint(tmp_path: Path) -> None:
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(tmp_path),
            "tidegate.checkpointing.retain-on-finish": "true",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, 2, 3]).key_by(lambda value: value).reduce(lambda a, b: a + b).uid("sum").print()
    job_id = str(env.execute("sums").get_job_id())
    damaged = tmp_path / ("f" * 32) / "chk-1"
    damaged.mkdir(parents=True)
    (damaged / "MANIFEST").write_bytes(b"nothing")
    with (
        served(StoredJobs(str(tmp_path)), ServerSettings(port=0)) as address,
        httpx.Client(base_url=f"{address}/v1/jobs/", timeout=60) as reader,
    ):
        jobs = {job["jid"]: job for job in reader.get("overview").json()["jobs"]}
        assert set(jobs) == {job_id, "f" * 32}
        assert (jobs[job_id]["name"], jobs[job_id]["state"]) == ("sums", "SUSPENDED")
        assert "not a checkpoint manifest" in jobs["f" * 32]["error"]
        assert reader.get("f" * 32).status_code == 404
        history = reader.get(f"{job_id}/checkpoints").json()
        assert history["counts"]["completed"] == len(history["history"]) == 1
        vertices = reader.get(job_id).json()["vertices"]
        details = reader.get(f"{job_id}/checkpoints/details/{history['history'][0]['id']}").json()
        assert set(details["tasks"]) == {vertex["id"] for vertex in vertices}
        assert all(part["num_acknowledged_subtasks"] for part in details["tasks"].values())
        operators = [one["uid"] for one in reader.get(f"{job_id}/state").json()["operators"]]
        assert "sum" in operators
        assert reader.get(f"{job_id}/live").status_code == 200
