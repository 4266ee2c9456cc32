"""The hybrid source: bounded sources one after the other, and a last one that may go on for ever.

Source of names and semantics: Flink's FLIP-150 (`HybridSource`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...common.errors import ConfigurationError
from ...operators.sources.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source, SourceReader
from .enumerator import HybridEnumerator
from .reader import HybridReader
from .stages import PositionOf, SourceFactory, Stage


class HybridSource(Source):
    """Reads several sources, each to its end before the next begins. Obtain one from `builder`.

    Records of all sources go the same way, so they should be of one type. The checkpoint holds which source
    is read, and its splits and positions.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)

    @staticmethod
    def builder(first_source: Source, *, position_of: PositionOf | None = None) -> HybridSourceBuilder:
        """Begin with a source; the arguments are those of `HybridSourceBuilder.add_source`."""
        return HybridSourceBuilder(first_source, position_of)

    def get_boundedness(self) -> Boundedness:
        return self._stages[-1].boundedness

    def max_source_parallelism(self) -> int | None:
        limits = [stage.source.max_source_parallelism() for stage in self._stages if stage.source]
        return min((limit for limit in limits if limit is not None), default=None)

    def colocation_group(self) -> str | None:
        groups = {stage.source.colocation_group() for stage in self._stages if stage.source} - {None}
        return next(iter(groups), None)

    def validate(self) -> None:
        for stage in self._stages:
            if stage.source is not None:
                stage.source.check_methods()
                stage.source.validate()

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return HybridEnumerator(context, self._stages, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return HybridEnumerator(context, self._stages, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return HybridReader(self._stages)


@dataclass(frozen=True)
class HybridSourceBuilder:
    """Makes a `HybridSource`. It never changes: each method returns another."""

    _first: Source
    _position_of: PositionOf | None = None
    _others: tuple[Stage, ...] = ()

    def add_source(
        self,
        source: Source | SourceFactory,
        boundedness: Boundedness | None = None,
        *,
        position_of: PositionOf | None = None,
    ) -> HybridSourceBuilder:
        """Go on with another source, once the one before has ended.

        Args:
            source: The source; or a function that makes it when it is its turn, from the
                `SourceSwitchContext`. It may wait for answers, and is called again if the job fails before
                the next checkpoint. What it made is kept in the checkpoint.
            boundedness: Of the source that the function makes; without end if not given. Others know it
                themselves.
            position_of: How far a batch is: it gets a list of records or an Arrow batch, never an empty one,
                and returns something that can be compared, such as the greatest time in it. The greatest of
                all is the `end_position` that the next function gets.
        """
        stage = _stage(source, boundedness, position_of)
        return HybridSourceBuilder(self._first, self._position_of, (*self._others, stage))

    def build(self) -> HybridSource:
        """The source.

        Raises:
            ConfigurationError: One that is not the last has no end, or two must run beside different
                operators.
        """
        stages = (_stage(self._first, None, self._position_of), *self._others)
        for number, stage in enumerate(stages[:-1], start=1):
            if stage.boundedness is not Boundedness.BOUNDED:
                raise ConfigurationError(
                    f"source {number} of {len(stages)} of the hybrid source ({stage.name}) has no end, so "
                    f"the one behind it would never be read; put it last, or bound it"
                )
        groups = {stage.source.colocation_group() for stage in stages if stage.source} - {None}
        if len(groups) > 1:
            raise ConfigurationError(
                f"the sources of the hybrid source must run in different places: {sorted(map(str, groups))}"
            )
        return HybridSource(stages)


def _stage(
    source: Source | Callable[..., Source], boundedness: Boundedness | None, position_of: PositionOf | None
) -> Stage:
    if isinstance(source, Source):
        own = source.get_boundedness()
        if boundedness not in (None, own):
            raise ConfigurationError(
                f"{type(source).__name__} is {own.value}, not {boundedness.value}: it says so itself, so "
                f"leave the argument out"
            )
        return Stage(source, None, own, position_of)
    if not callable(source):
        raise ConfigurationError(
            f"a hybrid source is made of sources, or of functions that make one, not of a "
            f"{type(source).__name__}"
        )
    return Stage(None, source, boundedness or Boundedness.CONTINUOUS_UNBOUNDED, position_of)
