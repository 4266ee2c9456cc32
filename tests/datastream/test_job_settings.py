"""Settings that say where a job's own processes run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.spec import JobSettings
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.settings.job_settings import job_settings


def _placed(where: str) -> str:
    settings = Configuration()
    settings.set_string("tidegate.coordinator.placement", where)
    return job_settings(settings, RestartStrategies.no_restart(), None).coordinator_placement


def test_a_coordinator_runs_on_the_head_anywhere_or_on_nodes_with_a_label() -> None:
    assert job_settings(Configuration(), RestartStrategies.no_restart(), None).coordinator_placement == "head"
    assert [_placed(where) for where in ("any", "role=coordinators")] == ["any", "role=coordinators"]


@pytest.mark.parametrize("where", ["tail", "role=", "=value", ""])
def test_a_place_that_is_neither_is_refused(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tidegate\.coordinator\.placement.*name=value"):
        _placed(where)


def _settings(**options: str) -> JobSettings:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    return job_settings(configuration, RestartStrategies.no_restart(), None)


@pytest.mark.parametrize("target", ["ray", "local"])
@pytest.mark.parametrize(
    ("key", "attribute"),
    [
        ("execution.checkpointing.dir", "checkpoint_dir"),
        ("execution.checkpointing.savepoint-dir", "savepoint_dir"),
        ("execution.state-recovery.path", "restore_path"),
        ("execution.checkpointing.local-backup.dirs", "local_snapshots_dir"),
        ("jobmanager.archive.fs.dir", "archive_dir"),
        ("tidegate.local-dir", "local_dir"),
        ("tidegate.trace.file", "trace_file"),
    ],
)
def test_a_relative_path_starts_from_the_directory_of_the_driver(
    target: str, key: str, attribute: str
) -> None:
    others = {"execution.target": target, "execution.checkpointing.local-backup.enabled": "true"}
    here = str(Path("some/place").absolute())
    for given, expected in (("some/place", here), ("/some/place", "/some/place"), ("s3://b/p", "s3://b/p")):
        assert getattr(_settings(**others, **{key: given}), attribute) == expected


def test_the_latest_checkpoint_of_a_relative_directory_is_looked_for_from_the_driver() -> None:
    restored = _settings(**{"execution.state-recovery.path": "latest:some/place"}).restore_path
    assert restored == f"latest:{Path('some/place').absolute()}"
    restored = _settings(**{"execution.state-recovery.path": "latest-if-any:some/place"}).restore_path
    assert restored == f"latest-if-any:{Path('some/place').absolute()}"
    restored = _settings(**{"execution.state-recovery.path": "latest:s3://bucket/place"}).restore_path
    assert restored == "latest:s3://bucket/place"


def test_a_relative_directory_of_logs_is_meant_from_the_driver() -> None:
    assert _settings(**{"env.log.dir": "logs"}).logs.directory == str(Path("logs").absolute())


@pytest.mark.parametrize(
    "key",
    ["execution.checkpointing.savepoint-dir", "execution.state-recovery.path", "jobmanager.archive.fs.dir"],
)
def test_the_memory_of_the_driver_is_no_place_for_a_job_on_ray(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} is .*memory of one process"):
        _settings(**{key: "memory://place"})
    _settings(**{key: "memory://place", "execution.target": "local"})


def test_a_relative_python_and_its_packages_are_found_from_the_driver(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tariffs")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_python_requirements(str(tmp_path / "requirements.txt"), "packages")
    assert env.python_environment().wheel_dir == str(Path("packages").absolute())
    for given, expected in (
        ("tests/conftest.py", str(Path("tests/conftest.py").absolute())),
        ("python3", "python3"),
        ("absent/python", "absent/python"),
    ):
        env.set_python_executable(given)
        assert env.python_environment().executable == expected
