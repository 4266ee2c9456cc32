"""One end of a comparison with pyzmq; see `benchmarks/connections/programs.py` for the lines that it takes.

    python pyzmq_ends.py sender|receiver ipc|tcp PEERS

The sender has a PUSH socket for each peer, the receiver one PULL socket. Parts of 64 KiB and more are not
copied by either.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time

import zmq

CREDIT_BYTES = 1 << 20
NOT_COPIED_BYTES = 1 << 16


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def queue_length(size: int) -> int:
    """As many messages as Tidegate's credit of a channel allows, and at least two."""
    return max(2, CREDIT_BYTES // size)


class Receiver:
    def __init__(self, transport: str) -> None:
        self._socket = zmq.Context().socket(zmq.PULL)
        self._directory = tempfile.mkdtemp()
        where = "tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{self._directory}/end"
        self._socket.setsockopt(zmq.RCVHWM, 2)
        self._socket.bind(where)
        self.address = self._socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")

    def run(self, size: int, count: int, rate: float) -> None:
        receive, is_copied = self._socket.recv, size < NOT_COPIED_BYTES
        for _ in range(count):
            receive(copy=is_copied)


class Sender:
    def __init__(self, address: str, peers: int) -> None:
        self._context = zmq.Context()
        self._address, self._peers = address, peers
        self._sockets: dict[int, list[zmq.Socket]] = {}

    def run(self, size: int, count: int, rate: float) -> None:
        sockets, payload, is_copied = self._connected(size), b"x" * size, size < NOT_COPIED_BYTES
        started_s = time.perf_counter()
        for number in range(count):
            if rate:
                time.sleep(max(0.0, started_s + number / rate - time.perf_counter()))
            sockets[number % len(sockets)].send(payload, copy=is_copied)

    def _connected(self, size: int) -> list[zmq.Socket]:
        """The length of a queue must be set before a socket connects."""
        if size not in self._sockets:
            sockets = [self._context.socket(zmq.PUSH) for _ in range(self._peers)]
            for each in sockets:
                each.setsockopt(zmq.SNDHWM, queue_length(size))
                each.connect(self._address)
            self._sockets[size] = sockets
        return self._sockets[size]


def main() -> None:
    role, transport, peers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "receiver":
        end = Receiver(transport)
        print(json.dumps(end.address), flush=True)
    else:
        end = Sender(json.loads(input()), peers)
        print(json.dumps("connected"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command != "cpu":
            end.run(**command)
        print(json.dumps(cpu_s()), flush=True)
    # Contexts would wait for peers that have gone.
    os._exit(0)


if __name__ == "__main__":
    main()
