"""`map_with_state` and its kin: the function gets a record and its key's state, and returns both anew."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from typing import Any

from ...common.typeinfo import TypeInformation
from ...protocol.elements import Batch, RowBatch
from ...state.descriptors import ValueStateDescriptor
from ...state.kinds import ValueState
from .keyed import KeyedOperator, Selector

STATE_NAME = "_with_state"


class KeyedWithStateOperator(KeyedOperator):
    """Calls `(value, state or None) -> (result, new state or None)`; a new state of None clears it.

    Args:
        function: The function, or an object with a method `method`.
        method: `map_with_state`, `flat_map_with_state` or `filter_with_state`.
        key_selector: Gives the key of a record that came without one.
        key_type: Declared type of the key, if any.
        state_type: Declared type of the state, if any.
    """

    def __init__(
        self,
        function: Any,
        method: str,
        key_selector: Selector,
        key_type: TypeInformation | None = None,
        state_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, method, key_selector, key_type)
        self._state_type = state_type
        self._state: ValueState[Any]

    def open(self) -> None:
        super().open()
        self._state = self.keyed.get_value_state(ValueStateDescriptor(STATE_NAME, self._state_type))

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = batch.rows()
        keys = self.keys_of(batch, values)
        self.keyed.prefetch(keys)
        results = self._results(values, keys)
        self.keyed.current_key = None
        self.keyed.records_processed(len(values))
        timestamps = batch.timestamps
        if self._method == "filter_with_state":
            if timestamps is not None:
                timestamps = list(compress(timestamps, results))
            results = list(compress(values, results))
        elif self._method == "flat_map_with_state":
            results, timestamps = _flattened(results, timestamps)
        if results:
            self.emit(RowBatch(results, timestamps))

    def _results(self, values: list[Any], keys: Sequence[Any]) -> list[Any]:
        call, keyed, state = self._call, self.keyed, self._state
        read, update = state.value, state.update
        is_flat = self._method == "flat_map_with_state"
        results: list[Any] = []
        append = results.append
        value: Any = None
        try:
            for value, key in zip(values, keys):
                keyed.current_key = key
                before = read()
                answer = call(value, before)
                if type(answer) is not tuple or len(answer) != 2:
                    raise TypeError(f"it must return (result, state), not {answer!r:.100}")
                result, after = answer
                if after is not None:
                    update(after)
                elif before is not None:
                    state.clear()
                # A generator may read the state it was given: it runs before the next record.
                append(list(result or ()) if is_flat else result)
        except Exception as error:
            raise self.user_error(f"{self._method}()", error, value) from error
        return results


def _flattened(groups: list[list[Any]], times: Sequence[int] | None) -> tuple[list[Any], list[int] | None]:
    results = [result for group in groups for result in group]
    if times is None:
        return results, None
    return results, [time for time, group in zip(times, groups) for time in repeat(time, len(group))]
