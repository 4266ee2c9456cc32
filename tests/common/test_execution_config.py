"""The configuration of a job as PyFlink programs read and write it."""

from __future__ import annotations

import pytest
from tidegate.common import Configuration, ExecutionConfig
from tidegate.common.errors import ConfigurationError
from tidegate.common.options.known_options import check_settings


def test_settings_of_the_jvm_are_kept_and_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert config.is_closure_cleaner_enabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert config.enable_closure_cleaner().is_closure_cleaner_enabled()
    assert not config.is_object_reuse_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_object_reuse().is_object_reuse_enabled()
    assert config.get_task_cancellation_interval() == 30_000
    assert config.set_task_cancellation_interval(7).get_task_cancellation_interval() == 7
    assert config.set_latency_tracking_interval(8).get_latency_tracking_interval() == 8
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
    check_settings(configuration)
    assert caplog.text.count("has no effect") == 5


def test_the_cancellation_timeout_is_the_one_that_tasks_have() -> None:
    configuration = Configuration()
    ExecutionConfig(configuration).set_task_cancellation_timeout(3_000)
    assert configuration.to_dict() == {"task.cancellation.timeout": "3 s"}


def test_generic_types_cannot_be_refused() -> None:
    config = ExecutionConfig().enable_generic_types()
    assert not config.has_generic_types_disabled()
    with pytest.raises(ConfigurationError, match="Declare an output_type"):
        config.disable_generic_types()


def test_two_configs_are_equal_when_their_settings_are() -> None:
    one, other = ExecutionConfig(), ExecutionConfig()
    assert one == other
    assert hash(one) == hash(other)
    one.set_parallelism(2)
    assert one != other
    assert one != "something else"
