"""The hybrid source in jobs: watermarks over the switch, what a changed program may not do, clear errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import Duration, Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError, StateMigrationError
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import Boundedness, ProcessFunction, Source, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSource
from tidegate.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

MakeEnv = Callable[..., StreamExecutionEnvironment]


class OwnValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0] if isinstance(value, tuple) else value)


class WithWatermark(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield ctx.timestamp(), ctx.timer_service().current_watermark()


def files(directory: Path, numbers: range) -> Path:
    directory.mkdir(exist_ok=True)
    for part in range(2):
        chosen = pa.table({"at": list(numbers[part::2])})
        pq.write_table(chosen, directory / f"{numbers.start}-{part}.parquet", row_group_size=20)
    return directory


@pytest.mark.parametrize("parallelism", [1, 2])
def test_watermarks_follow_the_records_over_the_switch_and_no_record_is_late(
    local_env: MakeEnv, tmp_path: Path, parallelism: int
) -> None:
    env = local_env(parallelism, tidegate_batch_size="5")
    env.get_config().set_auto_watermark_interval(1)
    history = FileSource(files(tmp_path / "in", range(0, 400)))
    source = HybridSource.builder(history).add_source(NumberSequenceSource(400, 799)).build()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500))
    stream = env.from_source(source, strategy.with_timestamp_assigner(OwnValue()), "all").uid("all")
    marked = stream.process(WithWatermark(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    with marked.execute_and_collect() as results:
        found = list(results)
    assert sorted(at for at, _ in found) == list(range(800))
    assert all(watermark < at for at, watermark in found)


def test_columns_of_files_pass_through_and_the_next_source_begins_where_they_end(
    local_env: MakeEnv, tmp_path: Path
) -> None:
    def rest(context: SourceSwitchContext) -> Source:
        assert isinstance(context.previous_source, FileSource)
        return NumberSequenceSource(context.end_position + 1, 99)

    history = FileSource(files(tmp_path / "in", range(0, 60)), as_columns=True)
    builder = HybridSource.builder(history, position_of=lambda batch: max(batch.column(0).to_pylist()))
    source = builder.add_source(rest, Boundedness.BOUNDED).build()
    env = local_env(2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "all").uid("all")
    numbers = stream.map(lambda value: value[0] if isinstance(value, tuple) else value)
    with numbers.execute_and_collect() as results:
        assert sorted(results) == list(range(100))


def test_a_source_without_end_must_be_the_last(tmp_path: Path) -> None:
    endless = FileSource(files(tmp_path / "in", range(4)), monitor_interval_ms=10)
    builder = HybridSource.builder(NumberSequenceSource(0, 1)).add_source(endless)
    assert builder.build().get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(ConfigurationError, match=r"source 2 of 3 .*FileSource\) has no end.*put it last"):
        builder.add_source(NumberSequenceSource(2, 3)).build()
    with pytest.raises(ConfigurationError, match=r"source 2 of 3 .*made by .*<lambda>\) has no end"):
        HybridSource.builder(NumberSequenceSource(0, 1)).add_source(lambda context: endless).add_source(
            NumberSequenceSource(2, 3)
        ).build().validate()


@pytest.mark.parametrize(
    ("factory", "problem"),
    [
        (lambda context: "topic", "is a str; return a Source"),
        (lambda context: NumberSequenceSource(0, 1), "is bounded, but add_source"),
        (lambda context: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_a_function_makes_is_checked_when_its_turn_comes(
    local_env: MakeEnv, factory: Any, problem: str
) -> None:
    env = local_env(**{"restart-strategy.type": "none"})
    source = HybridSource.builder(NumberSequenceSource(0, 9)).add_source(factory).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "all").uid("all").print()
    with pytest.raises(JobExecutionError, match=rf"operator 'all'.*{problem}"):
        env.execute()


def test_arguments_that_make_no_sense_are_refused() -> None:
    builder = HybridSource.builder(NumberSequenceSource(0, 1))
    with pytest.raises(ConfigurationError, match="NumberSequenceSource is bounded, not"):
        builder.add_source(NumberSequenceSource(2, 3), Boundedness.CONTINUOUS_UNBOUNDED)
    with pytest.raises(ConfigurationError, match="not of a str"):
        builder.add_source("orders")  # type: ignore[arg-type]


def test_missing_files_are_an_error_before_the_job_starts(local_env: MakeEnv, tmp_path: Path) -> None:
    source = HybridSource.builder(FileSource(tmp_path / "gone")).add_source(NumberSequenceSource(0, 1))
    env = local_env()
    env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "all").uid("all").print()
    with pytest.raises(ConfigurationError, match=r"cannot find .*gone"):
        env.execute()


def test_a_checkpoint_of_a_source_that_is_not_there_any_more_is_refused() -> None:
    def of(*sources: Source) -> HybridSource:
        builder = HybridSource.builder(sources[0])
        for source in sources[1:]:
            builder = builder.add_source(source)
        return builder.build()

    class Alone:
        """A context of one reader that ends at once."""

        def current_parallelism(self) -> int:
            return 1

        def registered_readers(self) -> list[int]:
            return [0]

        def assign_splits(self, assignment: Any) -> None:
            pass

        def signal_no_more_splits(self, subtask_id: int) -> None:
            pass

        def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
            pass

    first, second = NumberSequenceSource(0, 1), NumberSequenceSource(2, 3)
    context: Any = Alone()
    enumerator = of(first, second).create_enumerator(context)
    enumerator.start()
    state = enumerator.snapshot_state(1)
    of(first, second).restore_enumerator(context, state)
    with pytest.raises(
        StateMigrationError, match=r"while source 1 .* a NumberSequenceSource; .*'FileSource'"
    ):
        of(FileSource("in"), second).restore_enumerator(context, state)
