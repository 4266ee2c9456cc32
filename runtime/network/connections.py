"""The direct connections of a task process to those with which it exchanges records.

One thread waits for all sockets, however many there are. It hands over what arrives, opens connections, and
opens them again when they are lost. Tasks write to the sockets from their own threads; see `peer`.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...protocol.channels.frame_reader import new_scratch
from ...protocol.channels.frames import DataKind, FrameError, Refusal
from ...protocol.channels.link import LinkId, LinkRefused, ends_link
from ...protocol.channels.link_watch import LOOKS, LinkAction, LinkWatch
from ...protocol.elements import Message
from ...protocol.ids import Attempt
from .connection_log import ConnectionLog, explained, is_exhausted
from .handshakes import STRANGERS, Handshake, Incoming, Outgoing
from .listeners import Address, Carrier, Listeners, ListenOn, route
from .peer import Credited, Deliver, Peer
from .tls_errors import TlsError

logger = logging.getLogger(__name__)

_LATER = 4
"""When nothing is due soon, the time between two looks is the interval of a link's watch times this."""


_PAUSE_S = 1.0
"""How long no connection is accepted when this process has no descriptor left for one."""


@dataclass(eq=False)
class _Links:
    """The links of one attempt."""

    attempt: Attempt
    mine: int
    secret: bytes
    timeout_ms: int
    peers: dict[int, Peer] = field(default_factory=dict)
    addresses: Mapping[int, Address] = field(default_factory=dict)


class Connections:
    """All connections of this process.

    Args:
        deliver: Takes each message that arrives, on the thread of the connections.
        credited: Takes credit that comes back, likewise.
        failed: Takes the number of a process, and why it cannot be reached, likewise.
    """

    def __init__(self, deliver: Deliver, credited: Credited, failed: Callable[[LinkId, str], None]) -> None:
        self._deliver = deliver
        self._credited = credited
        self._failed = failed
        self._links = _Links(Attempt(-1), -1, b"", 1_000)
        self._handshakes: dict[Carrier, Handshake] = {}
        self._scratch = new_scratch()
        self._todo: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._woken)
        self._listeners = Listeners(lambda listener: self._do(lambda: self._listen(listener)))
        self._has_unregistered = False
        self._paused: list[socket.socket] = []
        self._log = ConnectionLog()
        self._is_closed = False
        self._look_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="tidegate-connections", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------ called by the process

    def address(self, node_id: str, on: ListenOn | None) -> Address:
        """Where other processes reach this one; see `Listeners.address`."""
        return self._listeners.address(node_id, on)

    def begin(
        self, attempt: Attempt, mine: int, secret: bytes, peers: Collection[int], timeout_ms: int
    ) -> None:
        """Expect the connections of an attempt, and end those of the one before.

        Args:
            attempt: The attempt.
            mine: The number of this process in it.
            secret: Known to the processes of the attempt only.
            peers: The numbers of the processes to exchange records with.
            timeout_ms: How long a connection may be lost before the link fails.
        """
        before, links, now_ms = self._links, _Links(attempt, mine, secret, timeout_ms), self._now_ms()
        for number in peers:
            link = LinkId(attempt, mine, number)
            watch = LinkWatch(timeout_ms, link.dials, now_ms)
            links.peers[number] = Peer(
                link, watch, self._deliver, self._credited, self._wants_write, self._broke
            )
        self._links = links
        self._do(lambda: self._end(before))

    def connect(self, attempt: Attempt, addresses: Mapping[int, Address]) -> None:
        """Open the connections of an attempt, as far as this end opens them.

        Args:
            attempt: The attempt; nothing happens if it is not the current one.
            addresses: Where its processes are.
        """
        links = self._links
        if attempt == links.attempt:
            links.addresses = addresses
            self._do(self._look_soon)

    def send(self, peer: int, message: Message, kind: DataKind) -> None:
        """Send a message to a process, from any thread; dropped if it is of another attempt."""
        there = self._links.peers.get(peer)
        if there is not None and there.link.attempt == message.attempt:
            there.send(message, kind)

    def close(self) -> None:
        """Close every connection, and end the thread."""
        self._is_closed = True
        self._wake()
        self._thread.join()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            # Without this thread nothing arrives any more, and no task could detect that.
            logger.exception("the thread of the direct connections ended")
            for peer in self._links.peers.values():
                self._failed(peer.link, f"the thread of the connections ended: {error}")

    def _work(self) -> None:
        while not self._is_closed:
            self._has_unregistered = False
            for key, mask in self._selector.select(self._wait_s()):
                # One event may end the connection of another event that was found at the same time.
                if not self._has_unregistered or self._selector.get_map().get(key.fd) is key:
                    key.data(mask)
            while self._todo:
                self._todo.popleft()()
            # Not after each message: a look costs time for every peer.
            if self._look_at_s <= time.monotonic():
                self._look()
        self._end(self._links)
        for connection in list(self._handshakes):
            self._drop(connection)
        self._listeners.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _do(self, work: Callable[[], None]) -> None:
        self._todo.append(work)
        self._wake()

    def _wake(self) -> None:
        # A full socket wakes the thread too; a closed one means that the thread has ended.
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_out.send(b"\0")

    def _woken(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_in.recv(4_096)

    def _wait_s(self) -> float:
        return 0.0 if self._todo else max(0.0, self._look_at_s - time.monotonic())

    def _look_soon(self) -> None:
        self._look_at_s = 0.0

    def _look(self) -> None:
        """Do what is due."""
        now_ms, links = self._now_ms(), self._links
        while self._paused:
            self._listen(self._paused.pop())
        is_soon = self._handshakes or any(not each.is_failed and each.is_due for each in links.peers.values())
        interval_ms = links.timeout_ms / LOOKS * (1 if is_soon else _LATER)
        self._look_at_s = time.monotonic() + interval_ms / 1_000
        for handshake in [each for each in self._handshakes.values() if each.deadline_ms <= now_ms]:
            self._handshake_failed(handshake, handshake.late)
        for peer in links.peers.values():
            # Before the addresses are known nothing is late, unless a task runs and has sent something.
            if not peer.is_failed and (links.addresses or peer.awaits):
                self._act(peer, peer.watch.look(now_ms, peer.is_dialing, peer.awaits))

    def _act(self, peer: Peer, action: LinkAction) -> None:
        if action is LinkAction.DIAL:
            if self._links.addresses:
                self._dial(peer)
        elif action is LinkAction.PING:
            peer.ping()
        elif action is LinkAction.BREAK:
            self._lose(peer, "the other end is silent, although data waits for its confirmation")
        elif action is LinkAction.FAIL:
            self._fail(peer, peer.watch.cause)

    def _fail(self, peer: Peer, cause: str) -> None:
        peer.is_failed = True
        self._disconnect(peer)
        here, there = (self._links.addresses.get(number) for number in (peer.link.mine, peer.link.theirs))
        where = f"{route(here, there, peer.link.dials)}: " if here and there else ""
        self._failed(peer.link, where + cause)

    # ------------------------------------------------------------ opening

    def _dial(self, peer: Peer) -> None:
        links = self._links
        try:
            connection = self._listeners.dial(
                links.addresses[peer.link.theirs], links.addresses[peer.link.mine]
            )
        except OSError as error:
            peer.watch.down(explained(error))
            return
        now_ms = self._now_ms()
        received = peer.progress.received
        handshake = Outgoing(connection, peer.link, links.secret, received, self._scratch, now_ms)
        peer.is_dialing = True
        self._handshakes[connection] = handshake
        self._selector.register(connection, selectors.EVENT_WRITE, lambda _: self._connected(handshake))

    def _connected(self, handshake: Outgoing) -> None:
        try:
            handshake.connected()
        except OSError as error:
            self._handshake_failed(handshake, str(error))
            return
        self._selector.modify(
            handshake.connection, selectors.EVENT_READ, lambda _: self._shake_hands(handshake)
        )

    def _listen(self, listener: socket.socket) -> None:
        self._selector.register(listener, selectors.EVENT_READ, lambda _: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, where = self._listeners.accept(listener)
        except BlockingIOError:
            return
        except OSError as error:
            self._log.cannot_accept(error, self._now_ms())
            if is_exhausted(error):
                self._pause(listener)
            return
        strangers = [each for each in self._handshakes.values() if isinstance(each, Incoming)]
        if len(strangers) >= STRANGERS:
            self._handshake_failed(strangers[0], "too many connections wait for their handshakes")
        self._look_soon()
        handshake = Incoming(
            connection, where, self._secret_of, self._received_of, self._scratch, self._now_ms()
        )
        self._handshakes[connection] = handshake
        self._selector.register(connection, selectors.EVENT_READ, lambda _: self._shake_hands(handshake))

    def _pause(self, listener: socket.socket) -> None:
        """Accept nothing until the next look: the connection that waits would wake this thread at once."""
        self._unregister(listener)
        self._paused.append(listener)
        self._look_at_s = min(self._look_at_s, time.monotonic() + _PAUSE_S)

    def _secret_of(self, link: LinkId) -> bytes:
        links = self._links
        if link.attempt != links.attempt:
            is_over = link.attempt < links.attempt
            raise LinkRefused(Refusal.ATTEMPT_OVER if is_over else Refusal.ATTEMPT_UNKNOWN)
        if self._peer(link) is None or link.dials:
            raise LinkRefused(Refusal.PROCESS_UNKNOWN)
        return links.secret

    def _received_of(self, link: LinkId) -> int:
        peer = self._peer(link)
        if peer is None:
            raise LinkRefused(Refusal.ATTEMPT_OVER)
        return peer.progress.received

    def _peer(self, link: LinkId) -> Peer | None:
        """The end of a link, if this process still has it."""
        peer = self._links.peers.get(link.theirs)
        return peer if peer is not None and peer.link == link and not peer.is_failed else None

    def _shake_hands(self, handshake: Handshake) -> None:
        try:
            if not handshake.read():
                return
        except LinkRefused as refused:
            if isinstance(handshake, Incoming):
                handshake.refuse(refused)
            self._handshake_failed(handshake, str(refused), refused.why.is_suspicious)
            return
        except (FrameError, OSError) as error:
            # A process that ends closes its connections too.
            is_suspicious = isinstance(error, FrameError | TlsError)
            self._handshake_failed(handshake, str(error), is_suspicious)
            return
        self._proved(handshake)

    def _proved(self, handshake: Any) -> None:
        connection, link = handshake.connection, handshake.link
        peer = self._peer(link)
        if peer is None:
            self._drop(connection)
            return
        self._disconnect(peer)
        del self._handshakes[connection]
        peer.is_dialing = False
        self._selector.modify(
            connection, selectors.EVENT_READ, lambda mask: self._ready(peer, connection, mask)
        )
        peer.watch.up()

        def begin() -> None:
            peer.resume(connection, handshake.reader, handshake.their_received)
            peer.begin()

        self._guarded(peer, connection, begin)

    def _handshake_failed(self, handshake: Handshake, cause: str, is_suspicious: bool = True) -> None:
        if isinstance(handshake, Outgoing):
            peer = self._peer(handshake.link)
            if peer is not None:
                peer.is_dialing = False
                peer.watch.down(cause)
                self._look_soon()
        elif isinstance(handshake, Incoming) and is_suspicious:
            self._log.refused(handshake.where, cause, self._now_ms())
        self._drop(handshake.connection)

    # ------------------------------------------------------------ carrying

    def _ready(self, peer: Peer, connection: Carrier, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and peer.flush() and peer.socket is connection:
            key = self._selector.get_key(connection)
            self._selector.modify(connection, selectors.EVENT_READ, key.data)
        if mask & selectors.EVENT_READ:
            self._guarded(peer, connection, peer.read)

    def _guarded(self, peer: Peer, connection: Carrier, work: Callable[[], None]) -> None:
        try:
            work()
        except (FrameError, LinkRefused) as error:
            if ends_link(error):
                self._fail(peer, f"it sent {error}" if isinstance(error, FrameError) else str(error))
            else:
                self._lose(peer, str(error))
        except OSError as error:
            if peer.socket is connection:
                self._lose(peer, str(error))

    def _wants_write(self, peer: Peer) -> None:
        self._do(lambda: self._watch_for_write(peer))

    def _watch_for_write(self, peer: Peer) -> None:
        if peer.socket is not None:
            key = self._selector.get_key(peer.socket)
            self._selector.modify(peer.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)

    def _broke(self, peer: Peer, connection: Carrier, cause: str) -> None:
        def lose() -> None:
            if peer.socket is connection:
                self._lose(peer, cause)

        self._do(lose)

    def _lose(self, peer: Peer, cause: str) -> None:
        link = peer.link
        logger.info(
            "the connection to process %d of attempt %d is lost: %s", link.theirs, link.attempt, cause
        )
        peer.watch.down(cause)
        self._disconnect(peer)
        self._look_soon()

    # ------------------------------------------------------------ ending

    def _end(self, links: _Links) -> None:
        self._look_soon()
        for peer in links.peers.values():
            peer.is_failed = True
            self._disconnect(peer)
        for connection, handshake in list(self._handshakes.items()):
            if isinstance(handshake, Outgoing) and handshake.link.attempt == links.attempt:
                self._drop(connection)

    def _disconnect(self, peer: Peer) -> None:
        lost = peer.disconnect()
        if lost is not None:
            self._unregister(lost)
            lost.close()

    def _drop(self, connection: Carrier) -> None:
        del self._handshakes[connection]
        self._unregister(connection)
        connection.close()

    def _unregister(self, end: Carrier) -> None:
        self._selector.unregister(end)
        self._has_unregistered = True

    # ------------------------------------------------------------ small things

    @staticmethod
    def _now_ms() -> int:
        return time.monotonic_ns() // 1_000_000
