"""Settings by key: a wrong name or value is refused and says what would be right."""

from __future__ import annotations

import pytest
from tidegate.common.configuration import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.common.options.known_options import check_settings, known_options


def from_pairs(settings: dict[str, str]) -> Configuration:
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    return configuration


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "execution.checkpointing.intervall",
            r"intervall is not a setting; did you mean execution\.checkpointing\.interval\?",
        ),
        (
            "execution.checkpoint.min-pause",
            r"did you mean execution\.checkpointing\.min-pause\?",
        ),
        ("restart-strategy.fixed-delay.attempt", r"did you mean restart-strategy\.fixed-delay\.attempts\?"),
        ("taskmanager.memory.process.size", r"not a setting of Tidegate: Ray runs the tasks"),
        ("alignment.max_buffered_bytes", r"Tidegate: use tidegate\.checkpointing\.alignment\.max-size$"),
        (
            "enableExternalizedCheckpoints",
            r"set execution\.checkpointing\.externalized-checkpoint-retention to ",
        ),
        ("state.backend.fs.write-buffer-size", r"there is no write buffer to size; remove it"),
        ("execution.checkpointing.approximate-local-recovery", r"always has all of its state"),
        ("execution-retries.delay", r"restart-strategy\.type to fixed-delay, and .*fixed-delay\.delay"),
        ("high-availability.storageDir", r"a lost coordinator restarts from checkpoint storage"),
        ("moon.phase", r"moon\.phase is not a setting; the nearest one is "),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(key: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_settings(from_pairs({key: "1"}))


def test_all_unknown_keys_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as error:
        check_settings(from_pairs({"parallelism.defalt": "1", "execution.targett": "local"}))
    assert "parallelism.default?" in str(error.value)
    assert "execution.target?" in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("execution.checkpointing.interval", "10 sekunden", r"'10 sekunden', which is not a duration.*10 s"),
        ("execution.checkpointing.data-inline-threshold", "20 potatoes", r"not a size.*20kb"),
        ("execution.checkpointing.unaligned.enabled", "yes", r"'yes', which is not a truth value.*true"),
        ("execution.checkpointing.mode", "TWICE", r"not one of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ("execution.checkpointing.num-retained", "many", r"'many', which is not an integer"),
        ("state.checkpoints.num-retained", "many", r"state\.checkpoints\.num-retained is set to 'many'"),
        ("restart-strategy.exponential-delay.jitter-factor", "half", r"not a number"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_with_what_can_be(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_settings(from_pairs({key: value}))


def test_every_option_may_be_set_to_its_default() -> None:
    configuration = Configuration()
    for option in known_options().values():
        if option.default is not None:
            configuration.set(option, option.default)
    check_settings(from_pairs(configuration.to_dict()))


def test_a_setting_with_one_possible_value_accepts_that_one_only() -> None:
    check_settings(from_pairs({"execution.checkpointing.incremental": "TRUE"}))
    for key in ("execution.checkpointing.incremental", "state.backend.incremental"):
        with pytest.raises(ConfigurationError, match="can only be true: every checkpoint is an increment"):
            check_settings(from_pairs({key: "false"}))


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("state.checkpoints.dir", "execution.checkpointing.dir", "/data"),
        ("state.checkpoints.num-retained", "execution.checkpointing.num-retained", "7"),
        ("execution.checkpointing.unaligned", "execution.checkpointing.unaligned.enabled", "true"),
        ("restart-strategy", "restart-strategy.type", "fixed-delay"),
        ("state.savepoints.dir", "execution.checkpointing.savepoint-dir", "/data"),
        ("savepoints.state.backend.fs.dir", "execution.checkpointing.savepoint-dir", "/data"),
        ("state.backend.fs.checkpointdir", "execution.checkpointing.dir", "/data"),
        ("state.backend.fs.memory-threshold", "execution.checkpointing.data-inline-threshold", "7"),
        ("state.checkpoint.cleaner.parallel-mode", "execution.checkpointing.cleaner.parallel-mode", "false"),
        ("taskmanager.state.local.root-dirs", "execution.checkpointing.local-backup.dirs", "/data"),
        ("task.checkpoint.alignment.max-size", "tidegate.checkpointing.alignment.max-size", "7"),
        ("state.backend", "state.backend.type", "lmdb"),
        ("execution.savepoint.path", "execution.state-recovery.path", "/data/chk-1"),
    ],
)
def test_flinks_older_keys_are_read_and_the_newer_one_wins(old: str, new: str, value: str) -> None:
    option = known_options()[new]
    configuration = from_pairs({old: value})
    check_settings(configuration)
    assert configuration.get(option) == from_pairs({new: value}).get(option)
    assert configuration.get(option) != option.default
    other = {"7": "8", "true": "false", "false": "true"}.get(value, "none")
    configuration.set_string(new, other)
    assert configuration.get(option) == from_pairs({new: other}).get(option)


@pytest.mark.parametrize("key", ["python.fn-execution.bundle.size", "pekko.ask.timeout"])
def test_a_setting_of_pyflinks_workers_is_accepted_with_a_warning(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_settings(from_pairs({key: "1"}))
    assert f"{key} has no effect: " in caplog.text
