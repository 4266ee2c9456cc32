"""The programs of the benchmark of connections still run."""

from __future__ import annotations

import pytest
from tidegate.benchmarks.connections.__main__ import Commands, module
from tidegate.benchmarks.connections.programs import opened


@pytest.mark.slow
@pytest.mark.parametrize("where", ["unix", "127.0.0.1"])
def test_both_ends_of_every_carrier_send_and_receive(where: str) -> None:
    carriers: list[Commands] = [
        module("ours", where, 2, "bytes"),
        module("ours", where, 1, "columns"),
        module("bare", where, 2),
    ]
    with opened(carriers) as pairs:
        for pair in pairs:
            for size in (100, 256 << 10):
                assert pair.cost(size, 20).time_us > 0
            assert pair.cost(4 << 10, 20, 1_000).cpu_us > 0
