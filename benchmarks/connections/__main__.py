"""What a message on a direct connection costs, compared with pyzmq and bare sockets.

    python -m benchmarks.connections [--peers 1,8,64] [--rounds 3] [--no-pyzmq]
    python -m benchmarks.connections --namespaces [--rounds 3]

One process sends to another, which has 1, 8 or 64 peers: connections from as many ends, all in the sending
process. The numbers are microseconds for a message, medians; the carriers take turns in each round. With
`RAY_USE_TLS=1` and Ray's other variables for certificates, it measures TLS as well.

`--namespaces` (as root) compares Arrow batches between two network namespaces with a bare socket that sends
as many bytes: TCP over a pair of virtual Ethernet devices.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence

from tidegate.runtime.network.tls_files import TlsFiles

from .. import environments
from .namespaces import ADDRESSES, two_namespaces
from .programs import ROOT, Cost, Pair, opened

SIZES = {100: 20_000, 4 << 10: 20_000, 256 << 10: 1_024, 4 << 20: 192}
"""Bytes of a message, and how many are sent in a round."""
BATCHES = {256 << 10: 2_000, 1 << 20: 600, 4 << 20: 150}
RATE = 500
RATED = 1_000
RATED_BYTES = 4 << 10
ROLES = ("sender", "receiver")

Commands = tuple[list[str], list[str]]


def carriers(peers: int, with_pyzmq: bool) -> dict[str, Commands]:
    """The commands of both ends by the name of what carries the messages."""
    tools = {}
    for kind, where, transport in (("Unix-domain socket", "unix", "ipc"), ("TCP", "127.0.0.1", "tcp")):
        tools[f"ours, {kind}"] = module("ours", where, peers, "bytes")
        if with_pyzmq:
            program = str(ROOT / "benchmarks" / "peers" / "pyzmq_ends.py")
            python = str(environments.ensure("pyzmq"))
            sender, receiver = ([python, program, role, transport, str(peers)] for role in ROLES)
            tools[f"pyzmq, {transport}"] = sender, receiver
        tools[f"bare {kind}"] = module("bare", where, peers)
    if TlsFiles.from_environment(os.environ) is not None:
        tools["ours, TCP with TLS"] = module("ours", "tls", peers, "bytes")
    return tools


def module(name: str, *arguments: object) -> Commands:
    """The commands of both ends that a module of this folder has."""
    sender, receiver = (
        [sys.executable, "-m", f"benchmarks.connections.{name}", role, *map(str, arguments)] for role in ROLES
    )
    return sender, receiver


def compare(peers: Sequence[int], rounds: int, with_pyzmq: bool) -> None:
    """Print a table of costs for each number of peers."""
    for count in peers:
        tools = carriers(count, with_pyzmq)
        print(f"\nPeers: {count}. CPU µs of both processes / µs passed for a message, back to back.\n")
        print(f"| carrier | {' | '.join(map(_readable, SIZES))} | 4 KiB at {RATE}/s, CPU µs |")
        print("|---" * (len(SIZES) + 2) + "|")
        with opened(list(tools.values())) as pairs:
            columns = [_medians(pairs, size, messages, rounds) for size, messages in SIZES.items()]
            columns.append(_medians(pairs, RATED_BYTES, RATED, rounds, RATE))
        for name, *costs in zip(tools, *columns, strict=True):
            cells = [f"{cost.cpu_us:,.1f} / {cost.time_us:,.1f}" for cost in costs[:-1]]
            print(f"| {name} | {' | '.join(cells)} | {costs[-1].cpu_us:,.0f} |", flush=True)


def _medians(pairs: Sequence[Pair], size: int, count: int, rounds: int, rate: float = 0) -> list[Cost]:
    for pair in pairs:
        pair.cost(size, max(64, count // 10), rate)
    costs = [[pair.cost(size, count, rate) for pair in pairs] for _ in range(rounds)]
    return [
        Cost(statistics.median(c.cpu_us for c in each), statistics.median(c.time_us for c in each))
        for each in zip(*costs, strict=True)
    ]


def compare_between_namespaces(rounds: int) -> None:
    """Print a table of throughputs of columns, relative to a bare socket."""
    host = ADDRESSES[1]
    with two_namespaces() as names:
        tools = module("ours", host, 1, "columns"), module("bare", host, 1)
        commands = [
            tuple(["ip", "netns", "exec", name, *end] for name, end in zip(names, both, strict=True))
            for both in tools
        ]
        print("| batch | ours, MB/s | bare, MB/s | ours ÷ bare | CPU µs, ours and bare |")
        print("|---|---|---|---|---|")
        with opened(commands) as pairs:  # type: ignore[arg-type]
            for size, count in BATCHES.items():
                ours, bare = _medians(pairs, size, count, rounds)
                print(
                    f"| {_readable(size)} | {size / ours.time_us:,.0f} | {size / bare.time_us:,.0f} "
                    f"| {bare.time_us / ours.time_us:.2f} | {ours.cpu_us:,.0f}, {bare.cpu_us:,.0f} |",
                    flush=True,
                )


def _readable(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.connections",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", default="1,8,64", help="numbers of peers, with commas between them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-pyzmq", action="store_true", help="leave out pyzmq, and do not install it")
    parser.add_argument("--namespaces", action="store_true", help="compare columns between two namespaces")
    options = parser.parse_args(arguments)
    if options.namespaces:
        compare_between_namespaces(options.rounds)
    else:
        compare([int(count) for count in options.peers.split(",")], options.rounds, not options.no_pyzmq)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
