from __future__ import annotations

import pytest
from tidegate.common import ConfigOption, ExecutionConfig
from tidegate.common.config_options import value_text
from tidegate.common.configuration import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.common.options import options

# Flink 2.3's documented keys and defaults; None where Flink has no default.
FLINK = {
    "execution.checkpointing.interval": None,
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.timeout": "10 min",
    "execution.checkpointing.min-pause": "0 ms",
    "execution.checkpointing.max-concurrent-checkpoints": "1",
    "execution.checkpointing.tolerable-failed-checkpoints": "0",
    "execution.checkpointing.num-retained": "1",
    "execution.checkpointing.dir": None,
    "execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS",
    "restart-strategy.type": None,
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "1 s",
    "restart-strategy.failure-rate.max-failures-per-interval": "1",
    "restart-strategy.failure-rate.failure-rate-interval": "1 min",
    "restart-strategy.failure-rate.delay": "1 s",
    "restart-strategy.exponential-delay.initial-backoff": "1 s",
    "restart-strategy.exponential-delay.max-backoff": "1 min",
    "restart-strategy.exponential-delay.backoff-multiplier": "1.5",
    "restart-strategy.exponential-delay.reset-backoff-threshold": "1 h",
    "restart-strategy.exponential-delay.jitter-factor": "0.1",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": "2147483647",
    "parallelism.default": "1",
    "pipeline.name": None,
    "pipeline.max-parallelism": "-1",
    "pipeline.auto-watermark-interval": "200 ms",
    "pipeline.global-job-parameters": None,
    "execution.buffer-timeout.interval": "100 ms",
    "state.backend.type": "hashmap",
}


def declared() -> dict[str, ConfigOption[object]]:
    groups = [getattr(options, name) for name in options.__all__]
    found = [value for group in groups for value in vars(group).values()]
    return {value.key: value for value in found if isinstance(value, ConfigOption)}


@pytest.mark.parametrize("key", FLINK)
def test_an_option_has_flinks_default_and_reads_it_back_from_text(key: str) -> None:
    option, text = declared()[key], FLINK[key]
    if text is None:
        assert option.default is None
    else:
        assert value_text(option.default) == text
        assert Configuration().set_string(key, text).get(option) == option.default


def test_no_two_options_share_a_key() -> None:
    groups = [vars(getattr(options, name)).values() for name in options.__all__]
    keys = [value.key for group in groups for value in group if isinstance(value, ConfigOption)]
    assert len(keys) == len(set(keys))


def test_the_execution_config_writes_the_configuration_it_was_given() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT
    assert config.get_max_parallelism() == -1
    assert config.get_auto_watermark_interval() == 200
    assert config.get_global_job_parameters() == {}
    config.set_parallelism(2).set_max_parallelism(256).set_auto_watermark_interval(50)
    config.set_global_job_parameters({"airport": "JFK"})
    assert configuration.to_dict() == {
        "parallelism.default": "2",
        "pipeline.max-parallelism": "256",
        "pipeline.auto-watermark-interval": "50 ms",
        "pipeline.global-job-parameters": "airport:JFK",
    }
    assert config.get_global_job_parameters() == {"airport": "JFK"}
    assert config.set_parallelism(-1).get_parallelism() == -1
    assert not configuration.contains_key("parallelism.default")


def test_a_parallelism_out_of_range_is_refused() -> None:
    for parallelism in (0, -2):
        with pytest.raises(ConfigurationError, match="at least 1"):
            ExecutionConfig().set_parallelism(parallelism)
    for max_parallelism in (0, 32_769):
        with pytest.raises(ConfigurationError, match="between 1 and 32768"):
            ExecutionConfig().set_max_parallelism(max_parallelism)
