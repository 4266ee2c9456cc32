"""The tables of the example, computed from row numbers: a large table of accounts, and payments.

Everything is an integer, so that two computations of a sum are equal in any order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

REGIONS = 1_000
PAYMENTS = pa.schema([("payment", pa.int64()), ("account", pa.int64()), ("cents", pa.int64())])
_ACCOUNTS_PER_FILE = 5_000_000
_ROW_GROUP = 1_000_000


def region_of(accounts: np.ndarray) -> np.ndarray:
    """The region of each account, scattered, so that no range of accounts has one region."""
    return (accounts * 2_654_435_761 % 1_000_003 % REGIONS).astype(np.int32)


def limit_of(accounts: np.ndarray) -> np.ndarray:
    """The limit of each account in cents."""
    return (accounts % 97 * 100).astype(np.int32)


def write_accounts(directory: Path, count: int) -> None:
    """Write the table of accounts, unless it is there already: 0.6 GB for 50 million rows."""
    done = directory / f"_{count}"
    if done.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    for first in range(0, count, _ACCOUNTS_PER_FILE):
        with pq.ParquetWriter(directory / f"accounts-{first:012d}.parquet", _table(0, 0).schema) as writer:
            for begin in range(first, min(first + _ACCOUNTS_PER_FILE, count), _ROW_GROUP):
                end = min(begin + _ROW_GROUP, first + _ACCOUNTS_PER_FILE, count)
                writer.write_table(_table(begin, end))
    done.touch()


def _table(begin: int, end: int) -> pa.Table:
    accounts = np.arange(begin, end, dtype=np.int64)
    return pa.table({"account": accounts, "region": region_of(accounts), "limit": limit_of(accounts)})


def payments(count: int, accounts: int) -> pa.Table:
    """Payments of random accounts; one in 50 is of an account that the table does not have."""
    random = np.random.default_rng(20)
    paying = random.integers(0, accounts + accounts // 50, count)
    return pa.table(
        {"payment": np.arange(count), "account": paying, "cents": random.integers(1, 10_000, count)},
        schema=PAYMENTS,
    )


def write_payments(directory: Path, count: int, accounts: int, splits: int) -> list[Path]:
    """Write the payments, in one file for each subtask that reads them."""
    directory.mkdir(parents=True, exist_ok=True)
    table, paths = payments(count, accounts), []
    for number in range(splits):
        paths.append(directory / f"payments-{number}.parquet")
        part = table.take(np.arange(number, count, splits))
        pq.write_table(part, paths[-1], row_group_size=65_536)
    return paths


def expected_totals(count: int, accounts: int) -> dict[int, tuple[int, int, int]]:
    """Payments, cents and payments above the limit of each region, computed with NumPy alone."""
    table = payments(count, accounts)
    account, cents = table["account"].to_numpy(), table["cents"].to_numpy()
    account, cents = account[account < accounts], cents[account < accounts]
    region = region_of(account)
    above = cents > limit_of(account)
    found = {}
    for number in np.unique(region):
        chosen = region == number
        found[int(number)] = (int(chosen.sum()), int(cents[chosen].sum()), int(above[chosen].sum()))
    return found
