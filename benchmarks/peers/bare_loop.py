"""The limit: a bare Python loop that calls the same user functions, with no engine around.

State lives in a dict. W3's checkpoint is left out: the line shows what Python alone can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from measure import MULTIPLIER, Orders, Tally, leave_mark

BATCH = 4096
State = dict[int, tuple[int, int]]


def add_one(x: int) -> int:
    """W1's map function."""
    return x + 1


def is_odd(x: int) -> bool:
    """W1's filter function."""
    return x % 2 == 1


def key_of(i: int, keys: int) -> int:
    """The key selector of W2 and W3."""
    return i * MULTIPLIER % keys


def count_sum(state: State, key: int, value: int) -> Iterator[tuple[int, int, int]]:
    """W2's process function."""
    count, total = state.get(key, (0, 0))
    count += 1
    total += value
    state[key] = (count, total)
    yield key, count, total


def stateless_batch(numbers: range) -> list[int]:
    """W1 over one batch."""
    results = []
    for x in numbers:
        y = add_one(x)
        if is_odd(y):
            results.append(y)
    return results


def keyed_batch(numbers: range, state: State, key: Callable[[int], int]) -> list[tuple[int, int, int]]:
    """W2 over one batch."""
    results: list[tuple[int, int, int]] = []
    for x in numbers:
        results.extend(count_sum(state, key(x), x))
    return results


def main() -> None:
    """Runs the loop to its end."""
    orders = Orders.from_argv()
    tally = Tally(orders)
    key = partial(key_of, keys=orders.keys)
    state: State = {}
    leave_mark(orders.marks_dir, "start")
    for first in range(0, orders.records, BATCH):
        numbers = range(first, min(first + BATCH, orders.records))
        if orders.workload == "W1":
            tally.add_numbers(stateless_batch(numbers))
        else:
            tally.add_triples(keyed_batch(numbers, state, key))
    tally.close()


if __name__ == "__main__":
    main()
