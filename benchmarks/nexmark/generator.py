"""The events of Nexmark: persons, auctions and bids, as the generators of Apache Beam and of
github.com/nexmark/nexmark make them, by a seed and in whole columns.

Of fifty events the first is a person, the next three are auctions, the others are bids. Half of the bids
go to the hot auction, the latest whose number divides by a hundred; three quarters come from the hot bidder,
found among persons likewise; three quarters of the auctions are the hot seller's. The others choose evenly
among the latest 100 auctions or 1,000 persons, and up to ten of each that do not exist yet. Prices are
100 · 10^u cents for u evenly from 0 to 6.

Source: P. Tucker et al., NEXMark, 2002, and the two generators named. nexmark-flink adds 1,000 to a bidder's
number twice, by mistake; here, as in Beam, it is added once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .texts import Int64s, Texts, bytes_of

PERSON, AUCTION, BID = 0, 1, 2
AUCTIONS_PER_EPOCH = 3
EPOCH = 50
"""Events in which there are one person, three auctions and 46 bids."""
BLOCK = 1_000 * EPOCH
"""Events that are made together, and travel in one Arrow batch."""

FIRST_ID = 1_000
FIRST_CATEGORY = 10
CATEGORIES = 5
HOT_EVERY = 100
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PERSONS = 1_000
LEAD = 10
HOT_AUCTION_RATIO = 2
HOT_BIDDER_RATIO = 4
HOT_SELLER_RATIO = 4
HOT_CHANNEL_RATIO = 2
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
CHANNELS = 10_000
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = [
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]

PERSON_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email_address", pa.string()),
        ("credit_card", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("date_time", pa.int64()),
        ("extra", pa.string()),
    ]
)
AUCTION_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("item_name", pa.string()),
        ("description", pa.string()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("date_time", pa.int64()),
        ("expires", pa.int64()),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)
BID_SCHEMA = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("date_time", pa.int64()),
        ("extra", pa.string()),
    ]
)
SCHEMAS = {"person": PERSON_SCHEMA, "auction": AUCTION_SCHEMA, "bid": BID_SCHEMA}
EVENT_SCHEMA = pa.schema(
    [
        ("kind", pa.int8()),
        *((name, pa.struct(list(schema))) for name, schema in SCHEMAS.items()),
        ("date_time", pa.int64()),
    ]
)
"""An event has one of the three; the others are null."""


@dataclass(frozen=True)
class Config:
    """Which events.

    Attributes:
        events: How many; fewer of one seed are the beginning of more.
        rate: Events in a second of event time.
        base_time_ms: Event time of the first.
        seed: What the random choices follow from.
    """

    events: int
    rate: int = 10_000
    base_time_ms: int = 1_436_918_400_000
    seed: int = 1

    def times(self, numbers: Int64s) -> Int64s:
        """The event times of events, in milliseconds."""
        return self.base_time_ms + (numbers * 1_000) // self.rate


def batches(config: Config) -> Iterator[pa.RecordBatch]:
    """The events in their order, in Arrow batches of `EVENT_SCHEMA`."""
    for first in range(0, config.events, BLOCK):
        yield _Block(config, first).batch().slice(0, config.events - first)


def records(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Events as tuples: the kind, then the columns of the person, auction or bid."""
    kinds = batch["kind"].to_numpy()
    found = np.empty(len(kinds), dtype=object)
    for kind, name in enumerate(SCHEMAS):
        rows = np.flatnonzero(kinds == kind)
        columns = [column.to_pylist() for column in batch[name].take(pa.array(rows)).flatten()]
        for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            found[row] = (kind, *values)
    return found.tolist()


def kinds_of(numbers: Int64s) -> npt.NDArray[np.int8]:
    """What the events of these numbers are."""
    place = numbers % EPOCH
    return np.select([place < 1, place <= AUCTIONS_PER_EPOCH], [PERSON, AUCTION], BID).astype(np.int8)


def last_persons(numbers: Int64s) -> Int64s:
    """The latest person, counted from 0, at the time of each event."""
    return numbers // EPOCH


def last_auctions(numbers: Int64s) -> Int64s:
    """The latest auction, counted from 0, at the time of each event; -1 before the first."""
    place = np.minimum(numbers % EPOCH, AUCTIONS_PER_EPOCH)
    return numbers // EPOCH * AUCTIONS_PER_EPOCH + place - 1


class _Block:
    """`BLOCK` events from one number on."""

    def __init__(self, config: Config, first: int) -> None:
        self._config = config
        self._rng = np.random.default_rng([config.seed, first // BLOCK])
        self._texts = Texts(self._rng)
        self._numbers = np.arange(first, first + BLOCK)

    def batch(self) -> pa.RecordBatch:
        kinds = kinds_of(self._numbers)
        makers = (self._persons, self._auctions, self._bids)
        parts = []
        for kind, (make, schema) in enumerate(zip(makers, SCHEMAS.values(), strict=True)):
            is_kind = kinds == kind
            table = pa.record_batch(make(self._numbers[is_kind]), schema=schema)
            rows = pa.array(np.cumsum(is_kind) - 1, mask=~is_kind)
            columns = [column.take(rows) for column in table.columns]
            parts.append(pa.StructArray.from_arrays(columns, fields=list(schema), mask=pa.array(~is_kind)))
        times = self._config.times(self._numbers)
        return pa.record_batch([pa.array(kinds), *parts, pa.array(times)], schema=EVENT_SCHEMA)

    def _persons(self, numbers: Int64s) -> list[Any]:
        count, rng, texts = len(numbers), self._rng, self._texts
        first, last = self._one_of(FIRST_NAMES, count), self._one_of(LAST_NAMES, count)
        name = _joined(first, " ", last)
        email = _joined(texts.words(count, 7), "@", texts.words(count, 5), ".com")
        digits = [pa.array(np.char.zfill(rng.integers(0, 10_000, count).astype(str), 4)) for _ in range(4)]
        card = _joined(digits[0], " ", digits[1], " ", digits[2], " ", digits[3])
        city, state = self._one_of(CITIES, count), self._one_of(STATES, count)
        extra = texts.extra(8 + bytes_of(name, email, card, city, state), PERSON_BYTES)
        ids = last_persons(numbers) + FIRST_ID
        return [ids, name, email, card, city, state, self._config.times(numbers), extra]

    def _auctions(self, numbers: Int64s) -> list[Any]:
        count, rng, texts, config = len(numbers), self._rng, self._texts, self._config
        people = last_persons(numbers)
        is_hot = rng.integers(0, HOT_SELLER_RATIO, count) > 0
        seller = np.where(is_hot, people // HOT_EVERY * HOT_EVERY, self._any_person(people)) + FIRST_ID
        category = FIRST_CATEGORY + rng.integers(0, CATEGORIES, count)
        initial, more = self._prices(count), self._prices(count)
        times = config.times(numbers)
        # An auction lasts on average as long as a hundred more take to begin.
        horizon = config.times(numbers + AUCTIONS_IN_FLIGHT * EPOCH // AUCTIONS_PER_EPOCH) - times
        expires = times + 1 + rng.integers(0, np.maximum(2 * horizon, 1))
        item, description = texts.words(count, 20), texts.words(count, 100)
        extra = texts.extra(48 + bytes_of(item, description), AUCTION_BYTES)
        ids = last_auctions(numbers) + FIRST_ID
        return [ids, item, description, initial, initial + more, times, expires, seller, category, extra]

    def _bids(self, numbers: Int64s) -> list[Any]:
        count, rng = len(numbers), self._rng
        latest, people = last_auctions(numbers), last_persons(numbers)
        oldest = np.maximum(latest - AUCTIONS_IN_FLIGHT, 0)
        other = oldest + rng.integers(0, latest - oldest + 1 + LEAD)
        is_hot = rng.integers(0, HOT_AUCTION_RATIO, count) > 0
        auction = np.where(is_hot, latest // HOT_EVERY * HOT_EVERY, other) + FIRST_ID
        is_hot = rng.integers(0, HOT_BIDDER_RATIO, count) > 0
        # The hot seller is the first of a hundred, the hot bidder the second.
        hot_bidder = people // HOT_EVERY * HOT_EVERY + 1
        bidder = np.where(is_hot, hot_bidder, self._any_person(people)) + FIRST_ID
        channel, url = self._channels(count)
        extra = self._texts.extra(np.full(count, 32), BID_BYTES)
        return [auction, bidder, self._prices(count), channel, url, self._config.times(numbers), extra]

    def _any_person(self, latest: Int64s) -> Int64s:
        """One of the active persons, or of those who come soon."""
        active = np.minimum(latest + 1, ACTIVE_PERSONS)
        return latest + 1 - active + self._rng.integers(0, active + LEAD)

    def _prices(self, count: int) -> Int64s:
        return np.rint(10 ** (self._rng.random(count) * 6) * 100).astype(np.int64)

    def _channels(self, count: int) -> tuple[pa.Array, pa.Array]:
        names, urls = _channel_names_and_urls(self._config.seed)
        is_hot = self._rng.integers(0, HOT_CHANNEL_RATIO, count) > 0
        hot = self._rng.integers(0, len(HOT_CHANNELS), count)
        other = len(HOT_CHANNELS) + self._rng.integers(0, CHANNELS, count)
        chosen = pa.array(np.where(is_hot, hot, other))
        return names.take(chosen), urls.take(chosen)

    def _one_of(self, choices: list[str], count: int) -> pa.Array:
        return pa.array(choices).take(pa.array(self._rng.integers(0, len(choices), count)))


@cache
def _channel_names_and_urls(seed: int) -> tuple[pa.Array, pa.Array]:
    """All channels, the hot ones first, and the address of each; one in ten does not name its channel."""
    rng = np.random.default_rng(seed)
    texts = Texts(rng)
    count = len(HOT_CHANNELS) + CHANNELS
    names = pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))])
    parts = [texts.words(count, 5, "_") for _ in range(3)]
    numbers = rng.integers(0, 2**31, count)
    is_named = (rng.integers(0, 10, count) > 0) & (np.arange(count) >= len(HOT_CHANNELS))
    named = [f"&channel_id={number}" if has else "" for number, has in zip(numbers, is_named, strict=True)]
    host, page = "https://www.nexmark.com/", "/item.htm?query=1"
    return names, _joined(host, parts[0], "/", parts[1], "/", parts[2], page, pa.array(named))


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
