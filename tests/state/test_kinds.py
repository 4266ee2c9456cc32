"""Default values, folding, and going over the entries of a map: one behaviour for every backend."""

from __future__ import annotations

import tracemalloc
from datetime import date
from itertools import islice
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, KeyTypeError, StateError
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

NUMBERS = MapStateDescriptor("numbers", Types.LONG(), Types.LONG())
LONG_KEYS = ["a" * 300, "b" * 300, "k" * 300]


def test_a_default_value_is_returned_but_not_stored(open_backend: Any) -> None:
    backend = open_backend()
    total = backend.get_value_state(ValueStateDescriptor("total", Types.LONG(), 5))
    box = backend.get_value_state(ValueStateDescriptor("box", default_value={"log": []}))
    backend.current_key = 1
    assert total.value() == 5
    box.value()["log"].append(1)
    assert box.value() == {"log": []}
    assert not backend.freeze().persist().segments
    total.update(6)
    box.update({"log": [2]})
    assert (total.value(), box.value()) == (6, {"log": [2]})
    total.clear()
    box.update(None)
    assert (total.value(), box.value()) == (5, {"log": []})


def test_a_default_value_may_change_on_a_restore(open_backend: Any) -> None:
    backend = open_backend()
    backend.get_value_state(ValueStateDescriptor("total", Types.LONG(), default_value=5))
    restored = open_backend(attempt=1)
    restored.restore(backend.freeze().persist(), owned=True)
    restored.current_key = 1
    assert restored.get_value_state(ValueStateDescriptor("total", Types.LONG())).value() is None


def folding(*arguments: Any) -> FoldingStateDescriptor:
    with pytest.warns(DeprecationWarning, match="use AggregatingState"):
        return FoldingStateDescriptor(*arguments)


def test_folding_state_folds_into_an_accumulator_of_another_type(open_backend: Any) -> None:
    class Append:
        def fold(self, accumulator: list[int], value: int) -> list[int]:
            accumulator.append(value)
            return accumulator

    backend = open_backend()
    text = backend.get_folding_state(folding("text", "-", lambda a, n: f"{a}{n}", Types.STRING()))
    numbers = backend.get_folding_state(folding("numbers", [], Append()))
    for backend.current_key in (1, 2):
        assert (text.get(), numbers.get()) == (None, None)
        for number in range(3):
            text.add(number)
            numbers.add(number)
            backend.freeze().persist()
        assert (text.get(), numbers.get()) == ("-012", [0, 1, 2])
    text.clear()
    text.add(7)
    assert text.get() == "-7"


def test_a_fold_function_must_be_callable() -> None:
    with pytest.raises(ConfigurationError, match=r"'f'.*fold"):
        folding("f", 0, 5)


def test_input_accumulator_and_output_of_an_aggregate_may_differ(open_backend: Any) -> None:
    class LongestWord:
        def create_accumulator(self) -> dict[str, int]:
            return {}

        def add(self, value: bytes, accumulator: dict[str, int]) -> dict[str, int]:
            accumulator[value.decode()] = len(value)
            return accumulator

        def get_result(self, accumulator: dict[str, int]) -> tuple[str, int]:
            return max(accumulator.items(), key=lambda item: item[1])

    backend = open_backend()
    descriptor = AggregatingStateDescriptor("words", LongestWord(), Types.MAP(Types.STRING(), Types.INT()))
    words = backend.get_aggregating_state(descriptor)
    backend.current_key = 1
    words.add(b"a")
    frozen = backend.freeze()
    words.add(b"abc")
    handle = frozen.persist()
    words.add(b"ab")
    assert words.get() == ("abc", 3)
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    restored.current_key = 1
    assert restored.get_aggregating_state(descriptor).get() == ("a", 1)


def test_a_function_that_gives_nothing_clears_the_state(open_backend: Any) -> None:
    backend = open_backend()
    last = backend.get_reducing_state(ReducingStateDescriptor("last", lambda a, b: b if b > 0 else None))
    backend.current_key = 1
    for number, expected in ((1, 1), (-1, None), (2, 2)):
        last.add(number)
        assert last.get() == expected
    backend.freeze().persist()
    assert last.get() == 2


def filled(backend: Any, count: int) -> Any:
    """A map whose entries are spread over LMDB, frozen buffers and the write buffer."""
    numbers = backend.get_map_state(NUMBERS)
    backend.current_key = "k"
    for number in range(count):
        numbers.put(number, number)
        if number == count // 2:
            backend.freeze().persist()
            if backend.needs_spill:
                # LMDB gets what a checkpoint stored afterwards; a spill waits for that.
                backend.spill().persist()
        if number == count * 3 // 4:
            backend.freeze()
    return numbers


@pytest.mark.parametrize("count", [1, 10, 500])
def test_all_entries_are_given_once_wherever_they_are(open_backend: Any, count: int) -> None:
    backend = open_backend()
    numbers = filled(backend, count)
    numbers.remove(0)
    numbers.put(3, -3)
    expected = {number: number for number in range(1, count)} | {3: -3}
    assert sorted(numbers.items()) == sorted(expected.items())
    assert sorted(numbers.keys()) == sorted(numbers) == sorted(expected)
    assert sorted(numbers.values()) == sorted(expected.values())


def test_a_map_may_change_while_it_is_gone_over(open_backend: Any) -> None:
    backend = open_backend()
    numbers = filled(backend, 300)
    given = []
    for key, value in numbers.items():
        assert key == value
        given.append(key)
        numbers.remove(key)
        numbers.remove((key + 150) % 300)
        numbers.put(1000 + key, 1000 + key)
    old = [key for key in given if key < 1000]
    assert len(given) == len(set(given))
    # Of two keys that remove each other, exactly the first is seen.
    assert sorted(key % 150 for key in old) == list(range(150))
    assert all(key >= 1000 for key in numbers)


def test_a_value_replaced_before_its_turn_is_the_new_one(open_backend: Any) -> None:
    backend = open_backend()
    numbers = filled(backend, 300)
    for count, (key, value) in enumerate(numbers.items()):
        if count == 0:
            for other in range(300):
                numbers.put(other, -other)
        else:
            assert value == -key
    assert count == 299


def test_a_buffer_may_be_stored_while_a_map_is_gone_over(open_backend: Any) -> None:
    backend = open_backend()
    numbers = filled(backend, 300)
    backend.freeze().persist()
    for number in range(200):
        if number % 2:
            numbers.remove(number)
        else:
            numbers.put(number, -number)
    frozen = backend.freeze()
    iterator = numbers.items()
    first = next(iterator)
    frozen.persist()
    expected = {number: -number for number in range(0, 200, 2)} | {n: n for n in range(200, 300)}
    assert sorted([first, *iterator]) == sorted(expected.items())


def test_an_iterator_means_the_key_of_its_making(open_backend: Any) -> None:
    backend = open_backend()
    numbers = filled(backend, 20)
    iterator = numbers.items()
    backend.current_key = "other"
    assert len(list(iterator)) == 20
    assert numbers.is_empty()


@pytest.mark.parametrize(
    "keys",
    [
        [*range(-300, 300, 7), -(1 << 70), 1 << 70],
        ["", "a", "a\0", "a\0b", "ab", "é", "\U0001f600", *LONG_KEYS],
        [b"", b"\0", b"\0\xff", b"\xff", b"x" * 400],
        [(1, "a"), (1, "b"), (-1, "z"), (2, ""), (2, "x" * 300)],
        [date(2024, 2, 29), date(1970, 1, 1), date(2024, 3, 1)],
    ],
    ids=["int", "str", "bytes", "tuple", "date"],
)
def test_sorted_items_come_in_the_order_of_their_keys(open_backend: Any, keys: list[Any]) -> None:
    backend = open_backend()
    entries = backend.get_map_state(MapStateDescriptor("entries"))
    backend.current_key = 1
    for index, key in enumerate(keys):
        entries.put(key, [key])
        if index == len(keys) // 2:
            backend.freeze().persist()
            if backend.needs_spill:
                # LMDB gets what a checkpoint stored afterwards; a spill waits for that.
                backend.spill().persist()
    entries.put(keys[0], "changed")
    in_order = sorted(keys)
    values = {key: [key] for key in keys} | {keys[0]: "changed"}
    assert list(entries.sorted_items()) == [(key, values[key]) for key in in_order]
    for start in range(len(in_order)):
        first = in_order[start]
        assert [key for key, _ in entries.sorted_items(from_key=first)] == in_order[start:]
        assert [key for key, _ in entries.sorted_items(to_key=first)] == in_order[:start]
        assert [key for key, _ in entries.sorted_items(first, in_order[-1])] == in_order[start:-1]


def test_a_bound_without_encoding_is_refused(open_backend: Any) -> None:
    backend = open_backend()
    backend.current_key = 1
    with pytest.raises(KeyTypeError, match="complex"):
        backend.get_map_state(NUMBERS).sorted_items(1.5j)


def test_an_empty_map_is_empty_wherever_its_removals_are(open_backend: Any) -> None:
    backend = open_backend()
    numbers = filled(backend, 30)
    for number in range(30):
        assert not numbers.is_empty()
        numbers.remove(number)
        if number % 10 == 9:
            backend.freeze().persist()
    assert numbers.is_empty()


@pytest.mark.parametrize("storage_is_there", [True, False])
def test_clearing_removes_all_entries_of_the_current_key_only(
    open_backend: Any, storage: Any, storage_is_there: bool
) -> None:
    backend = open_backend(storage=storage if storage_is_there else None)
    numbers = filled(backend, 200)
    backend.current_key = "other"
    numbers.put(1, 1)
    backend.current_key = "k"
    numbers.clear()
    assert (list(numbers), numbers.is_empty()) == ([], True)
    handle = backend.freeze().persist()
    backend.current_key = "other"
    assert list(numbers.items()) == [(1, 1)]
    if storage_is_there:
        restored = open_backend(attempt=1)
        restored.restore(handle, owned=True)
        restored.current_key = "k"
        assert restored.get_map_state(NUMBERS).is_empty()


def test_going_over_a_large_map_takes_little_memory_and_starts_at_once(open_backend: Any) -> None:
    backend = open_backend()
    numbers = backend.get_map_state(NUMBERS)
    backend.current_key = "k"
    numbers.put_all(dict.fromkeys(range(100_000), 0))
    restored = open_backend(attempt=1)
    restored.restore(backend.freeze().persist(), owned=True)
    numbers = restored.get_map_state(NUMBERS)
    restored.current_key = "k"
    tracemalloc.start()
    for iterator in (numbers.items(), numbers.keys(), numbers.values()):
        assert len(list(islice(iterator, 5))) == 5
    assert sum(1 for _ in numbers.items()) == 100_000
    assert not numbers.is_empty()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3_000_000


def test_a_map_without_a_key_is_an_error_at_once(open_backend: Any) -> None:
    numbers = open_backend().get_map_state(NUMBERS)
    for use in (numbers.items, numbers.keys, numbers.values, numbers.sorted_items, numbers.is_empty):
        with pytest.raises(StateError, match=r"running total.*'numbers'.*no key"):
            use()
