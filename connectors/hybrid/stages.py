"""The sources of a hybrid source, as the user gave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...common.errors import ConfigurationError
from ...operators.sources.enumerators import Boundedness
from ...operators.sources.sources import Source


@dataclass(frozen=True)
class SourceSwitchContext:
    """What a function that makes a source knows.

    Attributes:
        previous_source: The source that has ended.
        end_position: The greatest of what its `position_of` returned; `None` if it has none or no records.
    """

    previous_source: Source
    end_position: Any


SourceFactory = Callable[[SourceSwitchContext], Source]
PositionOf = Callable[[Any], Any]


@dataclass(frozen=True)
class Stage:
    """One of the sources.

    Attributes:
        source: The source, if it is known from the start.
        factory: Else what makes it.
        position_of: How far a batch is.
    """

    source: Source | None
    factory: SourceFactory | None
    boundedness: Boundedness
    position_of: PositionOf | None

    @property
    def name(self) -> str:
        """What it is, for errors."""
        if self.source is not None:
            return type(self.source).__name__
        return f"made by {getattr(self.factory, '__qualname__', repr(self.factory))}"

    def make(self, context: SourceSwitchContext) -> Source:
        """Call the factory.

        Raises:
            ConfigurationError: It made something that cannot be read here.
        """
        assert self.factory is not None
        made = self.factory(context)
        if not isinstance(made, Source):
            raise ConfigurationError(
                f"the next source of the hybrid source, {self.name}, is a {type(made).__name__}; return a "
                f"Source"
            )
        if made.get_boundedness() is not self.boundedness:
            raise ConfigurationError(
                f"the next source of the hybrid source, {self.name}, is {made.get_boundedness().value}, but "
                f"add_source() was told {self.boundedness.value}; say what it is"
            )
        made.check_methods()
        made.validate()
        return made
