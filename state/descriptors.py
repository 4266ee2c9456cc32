"""State descriptors: the name and the declared types of a state (PyFlink's names)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from ..common.errors import ConfigurationError
from ..common.typeinfo import PickledBytesTypeInfo, TypeInformation, type_text
from .ttl_config import StateTtlConfig

__all__ = [
    "AggregatingStateDescriptor",
    "FoldingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]


D = TypeVar("D", bound="StateDescriptor")


class StateDescriptor(ABC):
    """Name and types of one state.

    Args:
        name: unique among the states of one operator.
        type_info: type of the stored values; None means pickled.

    Attributes:
        previous_names: names under which older snapshots may hold the state, latest first.
    """

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a state needs a non-empty name, got {name!r}")
        self.name = name
        self.previous_names: tuple[str, ...] = ()
        self.type_info: TypeInformation = type_info or PickledBytesTypeInfo()
        self.ttl_config: StateTtlConfig | None = None
        self._schema: dict[str, object] = {"kind": self.kind, "value_type": self._value_text()}

    @property
    @abstractmethod
    def kind(self) -> str:
        """`value`, `list`, `map`, `reducing`, `aggregating` or `folding`."""

    def get_name(self) -> str:
        """The name of the state."""
        return self.name

    def renamed_from(self: D, name: str) -> D:
        """Restore the state also from snapshots that know it under another name.

        May be called several times, the latest name first; the state's own name is always tried first.

        Returns:
            The descriptor itself.
        """
        if not isinstance(name, str) or not name or name == self.name:
            raise ConfigurationError(
                f"state {self.name!r}: renamed_from needs the name the state had before, got {name!r}"
            )
        self.previous_names = (*self.previous_names, name)
        return self

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let what is kept in this state expire.

        Snapshots say whether there is a time to live and by which clock, so neither can be changed on a
        restore; everything else in the configuration can.

        Raises:
            ConfigurationError: when the time to live is not at least a millisecond.
        """
        ttl = ttl_config.get_ttl()
        if ttl_config.is_enabled() and ttl.to_milliseconds() < 1:
            raise ConfigurationError(
                f"state {self.name!r}: a time to live must be at least one millisecond, got {ttl!r}"
            )
        self.ttl_config = ttl_config if ttl_config.is_enabled() else None

    def schema(self) -> dict[str, object]:
        """What snapshots store about this state, as plain JSON values."""
        if self.ttl_config is None:
            return dict(self._schema)
        return {**self._schema, "ttl": self.ttl_config.clock_name()}

    def _value_text(self) -> str:
        return type_text(self.type_info)


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`.

    Args:
        default_value: what `value()` gives when there is none: a copy of its own each time if it can
            change in place. It is never stored.
    """

    kind = "value"

    def __init__(
        self, name: str, value_type_info: TypeInformation | None = None, default_value: Any = None
    ) -> None:
        super().__init__(name, value_type_info)
        self.default_value = default_value


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState`; `elem_type_info` is the type of one element."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState`."""

    kind = "map"

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, value_type_info)
        self.key_type_info: TypeInformation = key_type_info or PickledBytesTypeInfo()
        self._schema["map_key_type"] = type_text(self.key_type_info)


class ReducingStateDescriptor(StateDescriptor):
    """Describes a `ReducingState`.

    Args:
        reduce_function: an object with `reduce(a, b)`, or a callable of two values.
    """

    kind = "reducing"

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None = None) -> None:
        super().__init__(name, type_info)
        self._reduce_function = reduce_function
        self.reduce: Callable[[Any, Any], Any] = getattr(reduce_function, "reduce", reduce_function)
        if not callable(self.reduce):
            raise ConfigurationError(
                f"state {name!r}: the reduce function must be callable or have a method reduce(), "
                f"got {type(reduce_function).__name__}"
            )

    def get_reduce_function(self) -> Any:
        """The reduce function as it was given."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an `AggregatingState`.

    Args:
        agg_function: an object with `create_accumulator`, `add` and `get_result`.
        state_type_info: type of the accumulator.
    """

    kind = "aggregating"

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, state_type_info)
        missing = [
            method
            for method in ("create_accumulator", "add", "get_result")
            if not callable(getattr(agg_function, method, None))
        ]
        if missing:
            raise ConfigurationError(
                f"state {name!r}: the aggregate function {type(agg_function).__name__} has no "
                f"method {', '.join(missing)}"
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """The aggregate function as it was given."""
        return self._agg_function


class FoldingStateDescriptor(StateDescriptor):
    """Describes a `FoldingState`. Deprecated in Flink since 1.4: use an `AggregatingStateDescriptor`.

    Args:
        initial_value: what the first value is folded into; copied for each key if it can change in place.
        fold_function: an object with `fold(accumulator, value)`, or a callable of the two.
        type_info: type of the accumulator.
    """

    kind = "folding"

    def __init__(
        self,
        name: str,
        initial_value: Any,
        fold_function: Any,
        type_info: TypeInformation | None = None,
    ) -> None:
        warnings.warn(
            "FoldingState is deprecated; use AggregatingState, whose accumulator may be merged",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(name, type_info)
        self.initial_value = initial_value
        self._fold_function = fold_function
        self.fold: Callable[[Any, Any], Any] = getattr(fold_function, "fold", fold_function)
        if not callable(self.fold):
            raise ConfigurationError(
                f"state {name!r}: the fold function must be callable or have a method fold(), "
                f"got {type(fold_function).__name__}"
            )

    def get_fold_function(self) -> Any:
        """The fold function as it was given."""
        return self._fold_function
