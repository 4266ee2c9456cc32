"""The limit: a bare Python loop that calls the same user functions, with no engine around.

State lives in a dict. Checkpoints are left out: the line shows what Python alone can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from measure import (
    DISORDER_MS,
    MULTIPLIER,
    WINDOW_MS,
    Orders,
    Tally,
    event_time_ms,
    leave_mark,
    right_id,
)

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


def add(accumulator: tuple[int, int], value: int) -> tuple[int, int]:
    """W4's aggregate function."""
    return accumulator[0] + 1, accumulator[1] + value


def windowed(orders: Orders, tally: Tally) -> None:
    """W4."""
    windows: dict[int, State] = {}
    key = partial(key_of, keys=orders.keys)
    for first in range(0, orders.records, BATCH):
        highest_ms = 0
        for x in range(first, min(first + BATCH, orders.records)):
            time_ms = event_time_ms(x)
            highest_ms = max(highest_ms, time_ms)
            accumulators = windows.setdefault(time_ms // WINDOW_MS, {})
            own = key(x)
            accumulators[own] = add(accumulators.get(own, (0, 0)), x)
        for window in [w for w in windows if (w + 1) * WINDOW_MS <= highest_ms - DISORDER_MS]:
            tally.add_windows(fired(window, windows.pop(window)))
    for window, accumulators in windows.items():
        tally.add_windows(fired(window, accumulators))


def fired(window: int, accumulators: State) -> list[tuple[int, int, int, int]]:
    """The results of a window."""
    return [(key, window * WINDOW_MS, count, total) for key, (count, total) in accumulators.items()]


def joined(orders: Orders, tally: Tally) -> None:
    """W6: what came first waits for its partner."""
    lefts: dict[int, int] = {}
    rights: dict[int, int] = {}
    for first in range(0, orders.records // 2, BATCH):
        results = []
        numbers = range(first, min(first + BATCH, orders.records // 2))
        for x in numbers:
            right = rights.pop(x, None)
            if right is None:
                lefts[x] = 3 * x
            else:
                results.append((x, 3 * x, right))
        for x in numbers:
            y = right_id(x)
            left = lefts.pop(y, None)
            if left is None:
                rights[y] = 5 * y
            else:
                results.append((y, left, 5 * y))
        tally.add_triples(results)


def totals(orders: Orders, tally: Tally) -> None:
    """W1 and W2."""
    key = partial(key_of, keys=orders.keys)
    state: State = {}
    for first in range(0, orders.records, BATCH):
        numbers = range(first, min(first + BATCH, orders.records))
        if orders.workload == "W1":
            tally.add_numbers(stateless_batch(numbers))
        else:
            tally.add_triples(keyed_batch(numbers, state, key))


def main() -> None:
    """Runs the loop to its end."""
    orders = Orders.from_argv()
    tally = Tally(orders)
    leave_mark(orders.marks_dir, "start")
    {"W4": windowed, "W6": joined}.get(orders.workload, totals)(orders, tally)
    tally.close()


if __name__ == "__main__":
    main()
