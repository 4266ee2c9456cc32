"""The right answers: the queries in SQL, over the same events, by DuckDB.

The SQL is that of github.com/nexmark/nexmark in meaning. Where its answer depends on the order of events
alike, that order is the events' own: column `n` is their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ..expected import WrongResultError
from .generator import EVENT_SCHEMA, SCHEMAS

Row = tuple[Any, ...]

_DAY = "strftime(make_timestamp(date_time * 1000), '%Y-%m-%d')"
_MINUTE = "strftime(make_timestamp(date_time * 1000), '%H:%M')"
_RANKS = ("price < 10000", "price >= 10000 and price < 1000000", "price >= 1000000")


def _by_rank(count: str) -> str:
    return ", ".join([count, *(f"{count} filter (where {rank})" for rank in _RANKS)])


_STATISTICS = ", ".join(
    _by_rank(count) for count in ("count(*)", "count(distinct bidder)", "count(distinct auction)")
)
# DuckDB has no session windows: one begins where the bid before is more than ten seconds ago, or there is
# none. Windows of Flink that only touch are one.
_SESSIONS = """
    with gaps as (
        select bidder, date_time, n,
            date_time - lag(date_time) over (partition by bidder order by date_time, n) as gap
        from bid
    ), numbered as (
        select bidder, date_time,
            count(*) filter (where gap is null or gap > 10000)
                over (partition by bidder order by date_time, n) as session
        from gaps
    )
    select bidder, count(*), min(date_time), max(date_time) + 10000 from numbered group by bidder, session
"""
_HOT = """
    with counts as (
        select auction, date_time // 2000 * 2000 - step * 2000 as start, count(*) as num
        from bid, range(5) as steps(step) group by all
    )
    select auction, num from counts qualify num = max(num) over (partition by start)
"""

SQL = {
    "q0": "select auction, bidder, price, date_time, extra from bid",
    "q1": "select auction, bidder, 0.908::double * price, date_time, extra from bid",
    "q2": "select auction, price from bid where auction % 123 = 0",
    "q3": """
        select name, city, state, auction.id from auction join person on seller = person.id
        where category = 10 and state in ('OR', 'ID', 'CA')
    """,
    "q4": """
        with final as (
            select max(price) as price, category from auction join bid on auction.id = bid.auction
            where bid.date_time between auction.date_time and expires group by auction.id, category
        )
        select category, (sum(price) // count(*))::bigint from final group by category
    """,
    "q5": _HOT,
    "q7": """
        select auction, price, bidder, date_time, extra from bid
        qualify price = max(price) over (partition by date_time // 10000)
    """,
    "q8": """
        select distinct person.id, name, person.date_time // 10000 * 10000 from person join auction
        on person.id = seller and person.date_time // 10000 = auction.date_time // 10000
    """,
    "q11": _SESSIONS,
    "q12": "select bidder, count(*) from bid group by bidder",
    "q15": f"select {_DAY}, {_STATISTICS} from bid group by all",
    "q16": f"select channel, {_DAY}, max({_MINUTE}), {_STATISTICS} from bid group by channel, {_DAY}",
    "q17": f"""
        select auction, {_DAY}, {_by_rank("count(*)")}, min(price), max(price),
            (sum(price) // count(*))::bigint, sum(price)::bigint
        from bid group by auction, {_DAY}
    """,
    "q18": """
        select * exclude (n) from bid
        qualify row_number() over (partition by bidder, auction order by date_time desc, n desc) = 1
    """,
    "q19": """
        select * exclude (n), row_number() over (partition by auction order by price desc, n) as rank
        from bid qualify rank <= 10
    """,
    "q20": """
        select bid.* exclude (n), auction.* exclude (id, n) from bid join auction on bid.auction = auction.id
        where category = 10
    """,
}
_KEYS = {"q4": (0,), "q15": (0,), "q16": (0, 1), "q17": (0, 1), "q18": (0, 1), "q19": (0, 7)}
"""Columns of which each value has one row in the answer, the latest."""


class Answers:
    """DuckDB with the events of one run.

    Args:
        events: In their order, in batches of `EVENT_SCHEMA`.
    """

    def __init__(self, events: Sequence[pa.RecordBatch]) -> None:
        self._database = duckdb.connect()
        whole = pa.Table.from_batches(events, EVENT_SCHEMA).combine_chunks()
        numbers = pa.array(np.arange(len(whole)))
        for kind, (name, schema) in enumerate(SCHEMAS.items()):
            rows = pa.array(np.flatnonzero(whole["kind"].to_numpy() == kind))
            columns = whole[name].combine_chunks().take(rows).flatten()
            table = pa.table([*columns, numbers.take(rows)], names=[*schema.names, "n"])
            self._database.register(name, table)

    def to(self, query: str) -> list[Row]:
        """The rows a query must give, in any order."""
        return self._database.execute(SQL[query]).fetchall()

    def check(self, query: str, results: Iterable[Row], is_whole: bool = True) -> None:
        """Compare what a program gave with the answer.

        Args:
            is_whole: False for q12 whose last windows were dropped: its counts may be smaller.

        Raises:
            WrongResultError: A row is missing, too many or different.
        """
        if not is_whole:
            totals: dict[Any, int] = dict(self.to(query))
            if any(count > totals.get(bidder, 0) for bidder, count in _final(query, results)):
                raise WrongResultError(f"{query}: windows hold more bids than there are")
            return
        found, right = Counter(_final(query, results)), Counter(self.to(query))
        if found != right:
            missing, extra = right - found, found - right
            raise WrongResultError(
                f"{query}: {missing.total()} of {right.total()} rows are missing, such as "
                f"{next(iter(missing), None)}, and {extra.total()} should not be there, such as "
                f"{next(iter(extra), None)}"
            )


def _final(query: str, results: Iterable[Row]) -> Iterable[Row]:
    if query == "q12":
        # When windows end depends on the clock; what they hold together does not.
        totals: Counter[int] = Counter()
        for bidder, count, _, _ in results:
            totals[bidder] += count
        return totals.items()
    if query not in _KEYS:
        return map(tuple, results)
    key = _KEYS[query]
    return {tuple(row[at] for at in key): tuple(row) for row in results}.values()
