"""The environment's settings, and what of them is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
    restart_strategy_from,
)
from tidegate.common.time import Duration
from tidegate.coordinator.spec import JobSettings, JobSpec
from tidegate.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FileSystemStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    LmdbStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    StateBackend,
    StreamExecutionEnvironment,
)
from tidegate.datastream.settings.job_settings import job_settings
from tidegate.datastream.settings.spark_settings import spark_settings
from tidegate.protocol.ids import JobId
from tidegate.protocol.scheduling.plan import JobGraph

from .jobs import environment


def settings_of(options: dict[str, str], backend: StateBackend | None = None) -> JobSettings:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    return job_settings(configuration, restart_strategy_from(configuration), backend)


CHECKPOINTS = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": "/data"}


def test_checkpoint_settings_reach_the_job() -> None:
    settings = settings_of(
        {
            **CHECKPOINTS,
            "execution.checkpointing.min-pause": "200 ms",
            "execution.checkpointing.timeout": "1 min",
            "execution.checkpointing.max-concurrent-checkpoints": "3",
            "execution.checkpointing.tolerable-failed-checkpoints": "4",
            "execution.checkpointing.num-retained": "5",
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "pipeline.global-job-parameters": "airport:JFK,carrier:UA",
        }
    )
    policy = settings.trigger
    assert policy is not None
    assert (policy.interval_ms, policy.min_pause_ms, policy.timeout_ms) == (1_000, 200, 60_000)
    assert (policy.max_concurrent, policy.tolerable_failures, settings.num_retained) == (3, 4, 5)
    assert settings.mode is CheckpointingMode.AT_LEAST_ONCE
    assert settings.keep_on_cancel
    assert settings.checkpoint_dir == "/data"
    assert settings.job_parameters == {"airport": "JFK", "carrier": "UA"}


def test_checkpoints_are_off_by_default_and_a_failure_is_final() -> None:
    settings = settings_of({})
    assert settings.trigger is None
    assert settings.restart_strategy == RestartStrategies.no_restart()
    assert settings.mode is CheckpointingMode.EXACTLY_ONCE
    assert not settings.keep_on_cancel


FLINKS_EXPONENTIAL = RestartStrategies.exponential_delay_restart("1 s", "1 min", 1.5, "1 h", 0.1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, FLINKS_EXPONENTIAL),
        ({"restart-strategy.type": "exponential-delay"}, FLINKS_EXPONENTIAL),
        (
            {"restart-strategy.exponential-delay.initial-backoff": "100 ms"},
            RestartStrategies.exponential_delay_restart("100 ms", "1 min", 1.5, "1 h", 0.1),
        ),
        ({"restart-strategy.type": "none"}, RestartStrategies.no_restart()),
        ({"restart-strategy.type": "fixed-delay"}, RestartStrategies.fixed_delay_restart(1, "1 s")),
        (
            {"restart-strategy.type": "failure-rate"},
            RestartStrategies.failure_rate_restart(1, "1 min", "1 s"),
        ),
    ],
)
def test_the_restart_strategy_is_configured(
    options: dict[str, str], expected: RestartStrategyConfiguration
) -> None:
    assert settings_of({**CHECKPOINTS, **options}).restart_strategy == expected


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("hashmap", HashMapStateBackend),
        ("filesystem", FileSystemStateBackend),
        ("memory", MemoryStateBackend),
        ("jobmanager", MemoryStateBackend),
        ("LMDB", LmdbStateBackend),
        ("rocksdb", EmbeddedRocksDBStateBackend),
    ],
)
def test_the_state_backend_is_configured(name: str, backend: type) -> None:
    assert type(settings_of({"state.backend.type": name}).state_backend) is backend


def test_a_backend_may_bring_its_own_place_for_checkpoints() -> None:
    assert settings_of(CHECKPOINTS, FileSystemStateBackend("s3://bucket/x")).checkpoint_dir == "s3://bucket/x"
    assert settings_of(CHECKPOINTS, FileSystemStateBackend()).checkpoint_dir == "/data"


def test_small_files_travel_inline_and_with_the_memory_backend_all_of_them() -> None:
    settings = settings_of(CHECKPOINTS)
    assert (settings.inline_threshold_bytes, settings.max_inline_state_bytes) == (20_480, None)
    smaller = settings_of({**CHECKPOINTS, "execution.checkpointing.data-inline-threshold": "1kb"})
    assert smaller.inline_threshold_bytes == 1_024
    assert settings_of(CHECKPOINTS, MemoryStateBackend()).max_inline_state_bytes == 5 << 20
    assert settings_of(CHECKPOINTS, MemoryStateBackend(100)).max_inline_state_bytes == 100
    assert settings_of({"execution.checkpointing.storage": "JobManager"}).max_inline_state_bytes == 5 << 20
    with pytest.raises(ConfigurationError, match="max_state_size is 0 bytes"):
        MemoryStateBackend(0)


def test_flinks_checkpoint_storages_become_settings() -> None:
    configuration = Configuration()
    CheckpointConfig(configuration).set_checkpoint_storage(JobManagerCheckpointStorage("/jm", 1_000))
    settings = job_settings(configuration, restart_strategy_from(configuration), None)
    assert (settings.checkpoint_dir, settings.max_inline_state_bytes) == ("/jm", 1_000)
    files = FileSystemCheckpointStorage("/fs", 99)
    assert (files.get_checkpoint_path(), files.get_min_file_size_threshold()) == ("/fs", 99)
    assert files.get_write_buffer_size() == 4_096
    CheckpointConfig(configuration).set_checkpoint_storage(files)
    settings = job_settings(configuration, restart_strategy_from(configuration), None)
    assert (settings.checkpoint_dir, settings.max_inline_state_bytes) == ("/fs", None)
    assert settings.inline_threshold_bytes == 99
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 << 20
    with pytest.raises(ConfigurationError, match="between 0 and 1048576"):
        FileSystemCheckpointStorage("/fs", 2 << 20)


def test_flinks_setters_of_the_rocksdb_backend_are_understood() -> None:
    backend = EmbeddedRocksDBStateBackend(True)
    assert backend.is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() is None
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    backend.set_db_storage_paths("/fast")
    assert backend.get_db_storage_paths() == ["/fast"]
    sent = cloudpickle.loads(cloudpickle.dumps(backend))
    assert settings_of(CHECKPOINTS, sent).local_dir == "/fast"
    with pytest.raises(ConfigurationError, match="local state goes to one directory, but 2 were given"):
        backend.set_db_storage_paths("/a", "/b")


def test_a_relative_directory_for_sparks_logs_is_meant_from_here() -> None:
    configuration = Configuration()
    configuration.set_string("tidegate.spark.log-dir", "logs")
    assert spark_settings(configuration).log_dir == str(Path("logs").absolute())


def test_the_memory_in_front_of_lmdb_is_configured() -> None:
    settings = settings_of({"state.backend.type": "lmdb", "tidegate.state.lmdb.memory": "64mb"})
    assert settings.state_backend == LmdbStateBackend(memory_size_bytes=64 << 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state.backend.type": "paper"}, r"'paper'; choose one of filesystem, .*, memory, rocksdb"),
        (
            {"execution.checkpointing.data-inline-threshold": "2mb"},
            r"threshold is 2 mb; it must be at most 1 mb; ",
        ),
        ({"execution.checkpointing.storage": "moon"}, "execution.checkpointing.storage"),
        ({"tidegate.batch.size": "0"}, r"tidegate.batch.size is 0; it must be at least 1"),
        ({"execution.checkpointing.interval": "1 s"}, r"set execution.checkpointing.dir"),
        (
            {**CHECKPOINTS, "execution.checkpointing.num-retained": "0"},
            r"num-retained is 0; it must be at least 1",
        ),
        ({**CHECKPOINTS, "execution.checkpointing.interval": "0 ms"}, r"is 0 ms; .* leave it unset"),
        ({**CHECKPOINTS, "execution.checkpointing.timeout": "1 ms"}, r"timeout is 1 ms; .* at least 10 ms"),
        (
            {**CHECKPOINTS, "execution.checkpointing.max-concurrent-checkpoints": "0"},
            r"max-concurrent-checkpoints is 0; it must be at least 1",
        ),
        (
            {**CHECKPOINTS, "execution.checkpointing.tolerable-failed-checkpoints": "-1"},
            r"tolerable-failed-checkpoints is -1; it must be at least 0",
        ),
        (
            {
                **CHECKPOINTS,
                "execution.checkpointing.unaligned.enabled": "true",
                "execution.checkpointing.max-concurrent-checkpoints": "2",
            },
            "unaligned checkpoints need one at a time",
        ),
        (
            {
                **CHECKPOINTS,
                "execution.checkpointing.unaligned.enabled": "true",
                "execution.checkpointing.mode": "AT_LEAST_ONCE",
            },
            "unaligned.enabled needs .*EXACTLY_ONCE",
        ),
        (
            {**CHECKPOINTS, "tidegate.checkpointing.alignment.max-size": "0"},
            r"tidegate\.checkpointing\.alignment\.max-size is 0; it must be at least 1",
        ),
        ({**CHECKPOINTS, "execution.checkpointing.dir": "memory://x"}, "the memory of one process"),
        ({"execution.checkpointing.interval": "soon"}, "execution.checkpointing.interval"),
        ({"execution.target": "moon"}, "execution.target"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_key(options: dict[str, str], message: str) -> None:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).add_sink(print)
    with pytest.raises(ConfigurationError, match=message):
        env.execute()


def test_the_environment_reads_what_it_wrote() -> None:
    env = environment(parallelism=3)
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    env.set_buffer_timeout(20)
    assert env.get_parallelism() == 3
    assert env.get_max_parallelism() == -1
    assert env.get_checkpoint_interval() == 500
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.get_buffer_timeout() == 20
    assert env.get_config().get_parallelism() == 3


def test_later_settings_replace_earlier_ones() -> None:
    env = environment()
    more = Configuration()
    more.set_string("parallelism.default", "7")
    env.configure(more)
    assert env.get_parallelism() == 7


def test_a_restart_strategy_set_in_code_goes_before_the_configured_one() -> None:
    env = environment(options={"restart-strategy.type": "none"})
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 1))
    env.from_collection([0]).map(lambda value: 1 // value).add_sink(print)
    with pytest.raises(JobExecutionError, match="all 1 restarts of the fixed-delay strategy"):
        env.execute()


def test_a_job_that_leaves_the_choice_gets_the_configured_restart_strategy() -> None:
    env = environment(options={"restart-strategy.type": "fixed-delay"})
    env.set_restart_strategy(RestartStrategies.fall_back_restart())
    env.from_collection([0]).map(lambda value: 1 // value).add_sink(print)
    with pytest.raises(JobExecutionError, match="all 1 restarts of the fixed-delay strategy"):
        env.execute()


def test_two_jobs_do_not_restart_at_the_same_moment() -> None:
    settings, graph = settings_of(CHECKPOINTS), JobGraph("job", [], [])
    failovers = [JobSpec(JobId(f"job-{number}"), graph, settings).new_failover() for number in range(20)]
    assert len({failover.on_failure(0) for failover in failovers}) > 1


def test_a_state_backend_set_in_code_goes_before_the_configured_one() -> None:
    configuration = Configuration()
    configuration.set_string("state.backend.type", "hashmap")
    backend = LmdbStateBackend()
    assert job_settings(configuration, restart_strategy_from(configuration), backend).state_backend is backend


def test_an_environment_does_not_share_its_configuration() -> None:
    configuration = Configuration()
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(9)
    assert StreamExecutionEnvironment.get_execution_environment(configuration).get_parallelism() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.set_checkpoint_interval(9), "at least 10 ms"),
        (lambda c: c.set_checkpoint_timeout(9), "at least 10 ms"),
        (lambda c: c.set_min_pause_between_checkpoints(-1), "min-pause .* not a duration"),
        (lambda c: c.set_max_concurrent_checkpoints(0), "at least 1"),
        (lambda c: c.set_tolerable_checkpoint_failure_number(-1), "at least 0"),
    ],
)
def test_checkpoint_settings_out_of_range_are_refused(
    change: Callable[[CheckpointConfig], object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        change(environment().get_checkpoint_config())


def test_checkpoint_settings_read_what_was_written() -> None:
    config = environment().get_checkpoint_config()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    config.set_checkpoint_interval(30).set_checkpoint_timeout(40).set_min_pause_between_checkpoints(50)
    config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(3)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE).set_checkpoint_storage("/data")
    config.set_externalized_checkpoint_retention(retention)
    assert config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == 30
    assert config.get_checkpoint_timeout() == 40
    assert config.get_min_pause_between_checkpoints() == 50
    assert config.get_max_concurrent_checkpoints() == 2
    assert config.get_tolerable_checkpoint_failure_number() == 3
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_storage_path() == "/data"
    assert config.get_externalized_checkpoint_retention() is retention
    assert config.is_externalized_checkpoints_enabled()


def test_unaligned_checkpoints_are_set_with_flinks_names() -> None:
    config = environment().get_checkpoint_config()
    assert not config.is_unaligned_checkpoints_enabled()
    config.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout(Duration.of_seconds(2))
    config.set_force_unaligned_checkpoints()
    assert config.is_unaligned_checkpoints_enabled()
    assert config.is_force_unaligned_checkpoints()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_seconds(2)
    assert config.set_alignment_timeout(Duration.of_seconds(3)).get_alignment_timeout().to_millis() == 3_000
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()


def test_failing_on_checkpoint_errors_is_another_word_for_no_tolerable_failure() -> None:
    config = environment().get_checkpoint_config()
    assert config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(False)
    assert not config.is_fail_on_checkpointing_errors()
    assert config.get_tolerable_checkpoint_failure_number() > 1_000_000
    assert config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0


def test_the_random_initial_delay_can_be_switched_off() -> None:
    assert settings_of(CHECKPOINTS).random_initial_delay
    option = {"tidegate.checkpointing.random-initial-delay": "false"}
    assert not settings_of({**CHECKPOINTS, **option}).random_initial_delay


def test_checkpoints_are_synced_to_disk_unless_that_is_switched_off() -> None:
    assert settings_of(CHECKPOINTS).syncs_to_disk
    option = {"tidegate.checkpointing.sync-to-disk": "false"}
    assert not settings_of({**CHECKPOINTS, **option}).syncs_to_disk


def test_a_local_job_may_keep_its_checkpoints_anywhere() -> None:
    local = {"execution.checkpointing.interval": "1 s", "execution.target": "local"}
    for path in ("/checkpoints", "memory://x"):
        assert settings_of({**local, "execution.checkpointing.dir": path}).checkpoint_dir == path


def test_a_negative_buffer_timeout_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="buffer timeout is -2 ms"):
        environment().set_buffer_timeout(-2)


def test_copies_for_recovery_lie_with_the_local_state_unless_told_otherwise() -> None:
    assert settings_of(CHECKPOINTS).local_snapshots_dir is None
    on = {**CHECKPOINTS, "execution.checkpointing.local-backup.enabled": "true"}
    assert settings_of({**on, "tidegate.local-dir": "/local"}).local_snapshots_dir == "/local"
    elsewhere = {**on, "execution.checkpointing.local-backup.dirs": "/copies"}
    assert settings_of(elsewhere).local_snapshots_dir == "/copies"


def test_fewer_than_no_redundant_processes_are_refused() -> None:
    assert settings_of(CHECKPOINTS).redundant_processes == 0
    with pytest.raises(ConfigurationError, match="redundant-taskmanager-num is -1; it must be at least 0"):
        settings_of({**CHECKPOINTS, "slotmanager.redundant-taskmanager-num": "-1"})


def test_a_method_that_flink_removed_names_its_replacement() -> None:
    config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
    with pytest.raises(AttributeError, match=r"'enable_externalized_checkpoints'; call set_externalized_che"):
        config.enable_externalized_checkpoints(None)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'CheckpointConfig' object has no attribute 'nothing'$"):
        config.nothing  # type: ignore[attr-defined]  # noqa: B018
