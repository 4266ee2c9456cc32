"""The events of Nexmark have the shares, sizes and times that its specification gives them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tidegate.benchmarks.nexmark.generator import (
    BLOCK,
    EVENT_SCHEMA,
    SCHEMAS,
    Config,
    batches,
    kinds_of,
    last_auctions,
    records,
)

COUNT = 2 * BLOCK
CONFIG = Config(COUNT)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return pa.Table.from_batches(batches(CONFIG)).combine_chunks()


def of_kind(events: pa.Table, name: str) -> dict[str, np.ndarray]:
    """The columns of one kind, and `number`, that of the event."""
    rows = np.flatnonzero(events["kind"].to_numpy() == list(SCHEMAS).index(name))
    columns = events[name].combine_chunks().take(pa.array(rows)).flatten()
    arrays = {
        field: column.to_numpy(zero_copy_only=False) for field, column in zip(SCHEMAS[name].names, columns)
    }
    return {**arrays, "number": rows}


def average_bytes(table: dict[str, np.ndarray]) -> float:
    """As the specification counts: eight bytes a number, one a letter; a bid has no channel and address."""
    lengths = [
        np.full(len(column), 8) if column.dtype != object else pc.utf8_length(pa.array(column)).to_numpy()
        for name, column in table.items()
        if name not in ("number", "channel", "url")
    ]
    return float(np.mean(np.sum(lengths, axis=0)))


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_46_are_bids(events: pa.Table) -> None:
    assert kinds_of(np.arange(50)).tolist() == [0] + [1] * 3 + [2] * 46
    assert np.bincount(events["kind"].to_numpy()).tolist() == [COUNT // 50, COUNT // 50 * 3, COUNT // 50 * 46]


def test_persons_and_auctions_are_numbered_from_a_thousand(events: pa.Table) -> None:
    assert of_kind(events, "person")["id"].tolist() == list(range(1_000, 1_000 + COUNT // 50))
    assert of_kind(events, "auction")["id"].tolist() == list(range(1_000, 1_000 + COUNT // 50 * 3))


def test_event_times_follow_from_the_rate() -> None:
    config = Config(BLOCK, rate=4_000, base_time_ms=5_000)
    (batch,) = batches(config)
    times = batch["date_time"].to_numpy()
    assert times[:9].tolist() == [5_000] * 4 + [5_001] * 4 + [5_002]
    assert times[-1] == 5_000 + BLOCK // 4 - 1
    assert all(
        event[{0: 7, 1: 6, 2: 6}[event[0]]] == time for event, time in zip(records(batch), times.tolist())
    )


def test_half_of_the_bids_go_to_the_hot_auction_and_the_others_to_those_in_flight(events: pa.Table) -> None:
    bids = of_kind(events, "bid")
    latest = last_auctions(bids["number"])
    behind = bids["auction"] - 1_000 - latest
    hot = latest // 100 * 100 - latest
    # One in 111 of the other half meets the hot auction by chance.
    assert np.mean(behind == hot) == pytest.approx(0.5 + 0.5 / 111, abs=0.01)
    assert behind.min() == -100
    assert behind.max() == 10
    others = behind[(latest > 200) & (behind != hot)]
    assert others.mean() == pytest.approx(-45, abs=1)


def test_three_quarters_of_the_bids_are_the_hot_bidders_and_the_others_active_persons(
    events: pa.Table,
) -> None:
    bids = of_kind(events, "bid")
    latest = bids["number"] // 50
    person = bids["bidder"] - 1_000
    is_hot = person == latest // 100 * 100 + 1
    assert np.mean(is_hot) == pytest.approx(0.75, abs=0.01)
    ahead = (person - latest)[~is_hot]
    assert ahead.max() == 10
    assert ahead.min() == -999


def test_three_quarters_of_the_auctions_are_the_hot_sellers(events: pa.Table) -> None:
    auctions = of_kind(events, "auction")
    latest = auctions["number"] // 50
    assert np.mean(auctions["seller"] - 1_000 == latest // 100 * 100) == pytest.approx(0.75, abs=0.01)
    assert np.bincount(auctions["category"] - 10) == pytest.approx([len(latest) / 5] * 5, rel=0.1)


def test_auctions_last_on_average_as_long_as_a_hundred_more_take_to_come(events: pa.Table) -> None:
    auctions = of_kind(events, "auction")
    length = auctions["expires"] - auctions["date_time"]
    assert length.min() >= 1
    assert length.mean() == pytest.approx(100 / 3 * 50 / 10, rel=0.05)
    assert (auctions["reserve"] > auctions["initial_bid"]).all()


def test_prices_are_even_on_a_logarithmic_scale(events: pa.Table) -> None:
    powers = np.log10(of_kind(events, "bid")["price"] / 100)
    assert np.histogram(powers, bins=6, range=(0, 6))[0] / len(powers) == pytest.approx([1 / 6] * 6, rel=0.05)


def test_half_of_the_bids_come_through_four_channels(events: pa.Table) -> None:
    names, counts = np.unique(of_kind(events, "bid")["channel"], return_counts=True)
    is_hot = ~np.char.startswith(names.astype(str), "channel-")
    assert set(names[is_hot]) == {"Google", "Facebook", "Baidu", "Apple"}
    assert counts[is_hot] / counts.sum() == pytest.approx([1 / 8] * 4, rel=0.05)
    assert len(names) == pytest.approx(10_004, rel=0.02)


@pytest.mark.parametrize(("name", "size"), [("person", 200), ("auction", 500), ("bid", 100)])
def test_events_have_their_average_size(events: pa.Table, name: str, size: int) -> None:
    # A time counts as eight bytes here and as none there, and so does a person's or a bid's one number.
    assert average_bytes(of_kind(events, name)) == pytest.approx(size, rel=0.05)


def test_the_seed_decides_about_everything() -> None:
    assert list(batches(Config(BLOCK))) == list(batches(Config(BLOCK)))
    assert list(batches(Config(BLOCK, seed=2))) != list(batches(Config(BLOCK)))


def test_fewer_events_are_the_beginning_of_more() -> None:
    few, more = list(batches(Config(70))), list(batches(Config(BLOCK + 50)))
    assert few[0].schema == EVENT_SCHEMA
    assert few[0].equals(more[0].slice(0, 70))
    assert [len(batch) for batch in more] == [BLOCK, 50]


def test_records_are_the_rows_of_the_columns() -> None:
    (batch,) = batches(Config(60))
    for event, row in zip(records(batch), batch.to_pylist(), strict=True):
        name = ("person", "auction", "bid")[event[0]]
        assert event[1:] == tuple(row[name].values())
