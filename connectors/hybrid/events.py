"""What the enumerator of a hybrid source and its readers tell each other, and what readers keep in state.

Everything carries the place of its source among the sources, counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operators.sources.sources import Source


@dataclass(frozen=True, slots=True)
class SourceSwitched:
    """To a reader: read this source from now on.

    Attributes:
        made: The source, if a factory made it; the others travel with the program.
    """

    index: int
    made: Source | None


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """To a reader: it has all splits that it will get of this source."""

    index: int


@dataclass(frozen=True, slots=True)
class Passed:
    """To a reader or from it: an event of the source itself."""

    index: int
    event: Any


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """From a reader: nothing is left to read."""

    index: int


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """From a reader: it has read all that it will get of this source.

    Attributes:
        position: How far that was, since the job started anew or from a checkpoint.
    """

    index: int
    position: Any


@dataclass(frozen=True, slots=True)
class HybridSplit:
    """A split of one of the sources."""

    index: int
    split: Any


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """In the state of a reader: how far it has read a source."""

    index: int
    position: Any


def further(one: Any, other: Any) -> Any:
    """The greater of two positions; `None` is none."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
