"""The configuration of a time to live (PyFlink's `StateTtlConfig`, with event time added)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum

from ..common.errors import ConfigurationError
from ..common.time import Duration, Time

__all__ = ["StateTtlConfig"]

TtlLength = Time | Duration | timedelta


class StateTtlConfig:
    """How long what is kept in a state lives, and what becomes of it then.

    The time to live counts per value, per element of a list, and per entry of a map; in reducing,
    aggregating and folding state per accumulator. What is stored is the time of expiry: another length
    counts from the next write on. Built with `StateTtlConfig.new_builder`.
    """

    class UpdateType(Enum):
        """What starts the time to live anew."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether a value that is expired but still there is returned, for the last time."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock.

        `EventTime` is the current watermark of the operator. What is written before the first watermark
        does not expire until it is written again, and the watermark that ends a bounded input expires
        nothing.
        """

        ProcessingTime = 0
        EventTime = 1

    class CleanupStrategies:
        """When expired state is removed, besides being removed when it is read."""

        class Strategies(Enum):
            """Names of the strategies."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(ABC):
            """Base of all strategies."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Checks some entries with each access, or with each record too."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """How many entries are checked at a time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Whether every record of the operator counts as an access."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired entries when the local store is compacted."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """As given; the clock is read once per compaction here."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """As given; the LMDB file is compacted when enough of it is free."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: Mapping[Strategies, CleanupStrategy],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = dict(strategies)
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Whether expired state is removed without being asked for."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Whether snapshots that hold everything were asked to leave expired state out."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
            """The incremental clean-up: the one asked for, else five entries per access, else None."""
            strategy = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(strategy, self.IncrementalCleanupStrategy):
                return strategy
            return self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
            """The clean-up in compactions: the one asked for, else a default one, else None."""
            strategy = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(strategy, self.RocksdbCompactFilterCleanupStrategy):
                return strategy
            return self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: TtlLength,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = _as_time(ttl)
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: TtlLength) -> Builder:
        """Start a configuration.

        Args:
            ttl: how long a value lives: a `Time`, a `Duration` or a `datetime.timedelta`.
        """
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        """What starts the time to live anew."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Whether expired values may be returned."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """The length, in whole milliseconds."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """The clock."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether anything expires at all."""
        return self._update_type is not self.UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """When expired state is removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type.name}, "
            f"state_visibility={self._state_visibility.name}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic.name}, ttl={self._ttl!r}>"
        )

    class Builder:
        """Builds a `StateTtlConfig`: by default updated on create and write, never returning what is
        expired, in processing time, with clean-up in the background."""

        def __init__(self, ttl: TtlLength) -> None:
            self._ttl: TtlLength = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set what starts the time to live anew."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Only writing starts the time to live anew."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Reading starts it anew as well: each read then counts as a change."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Set whether expired values may be returned."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Return an expired value once more if it is still there."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Never return an expired value."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set the clock."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Measure with the clock of the task."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Measure with the watermark of the operator, which Flink cannot."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired state out of snapshots that hold everything."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Check some entries with each access to the state.

            Args:
                cleanup_size: how many, at least 1.
                run_cleanup_for_every_record: whether every record of the operator counts as an access.
            """
            if cleanup_size < 1:
                raise ConfigurationError(
                    f"cleanup_incrementally: cleanup_size must be at least 1, got {cleanup_size}"
                )
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = (
                strategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Drop expired entries when the LMDB file is compacted; the arguments have no effect here."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired state only when it is read, and as else asked for."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: TtlLength) -> StateTtlConfig.Builder:
            """Set how long a value lives."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """The configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )


def _as_time(ttl: TtlLength) -> Time:
    if isinstance(ttl, Time):
        return ttl
    if isinstance(ttl, Duration):
        return Time.milliseconds(ttl.to_millis())
    if isinstance(ttl, timedelta):
        return Time.milliseconds(ttl // timedelta(milliseconds=1))
    raise ConfigurationError(
        f"a time to live must be a Time, a Duration or a timedelta, got {ttl!r}; for example Time.hours(1)"
    )
