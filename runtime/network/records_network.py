"""Carries messages between the subtasks of this process and those of others, attempt by attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocol.channels.frames import DataKind, Payload
from ...protocol.channels.link import LinkId
from ...protocol.elements import Announced, EndOfInput, Message, Probe
from ...protocol.ids import Attempt, ChannelId, SubtaskId
from ...protocol.task_events import ConnectionFailed, CreditReturned
from .connections import Connections
from .listeners import Address, ListenOn
from .peer import Peer

Put = Callable[[Any], None]
"""Puts something into the mailbox of a task."""

Addressed = tuple[SubtaskId, Message]
"""A message and the subtask to receive it."""

_ANNOUNCED: Mapping[DataKind, Announced | None] = {
    DataKind.ELEMENTS: None,
    DataKind.END_OF_INPUT: EndOfInput(),
    DataKind.PROBE: Probe(),
}
_KINDS = {type(announced): kind for kind, announced in _ANNOUNCED.items()}


@dataclass(frozen=True, slots=True)
class Receiver:
    """The far end of an output channel."""

    process: int
    """Its number within the attempt."""
    subtask: SubtaskId


@dataclass(frozen=True)
class AttemptRoutes:
    """What a process has to know of the others in one attempt.

    Attributes:
        attempt: The attempt.
        mine: The number of this process.
        secret: Known to the processes of the attempt only.
        receivers: The far end of each output channel of this process.
        actors: The actors of the other processes that `receivers` names, by number.
        senders: The numbers of the processes that send to this one.
        timeout_ms: How long a connection may be lost.
    """

    attempt: Attempt
    mine: int
    secret: bytes = field(repr=False)
    receivers: Mapping[ChannelId, Receiver]
    actors: Mapping[int, Any]
    senders: frozenset[int]
    timeout_ms: int

    @property
    def peers(self) -> frozenset[int]:
        """The other processes with which this one exchanges records."""
        return frozenset(self.actors.keys() | self.senders) - {self.mine}


class RecordsNetwork:
    """The network of one process, whatever attempt it is in."""

    def __init__(self) -> None:
        self._connections = Connections(self._arrived, self._credited, self._failed)
        self._current: AttemptNetwork | None = None

    def address(self, node_id: str, on: ListenOn | None = None) -> Address:
        """Where other processes reach this one; see `Listeners.address`."""
        return self._connections.address(node_id, on)

    def begin(self, routes: AttemptRoutes) -> AttemptNetwork:
        """The network of a new attempt; that of the one before carries nothing any more."""
        self._current = AttemptNetwork(routes, self._connections)
        self._connections.begin(routes.attempt, routes.mine, routes.secret, routes.peers, routes.timeout_ms)
        return self._current

    def connect(self, attempt: Attempt, addresses: Mapping[int, Address]) -> None:
        """All processes of the attempt are ready to be connected to."""
        self._connections.connect(attempt, addresses)

    def _arrived(self, peer: Peer, channel: ChannelId, number: int, kind: DataKind, payload: Payload) -> None:
        current = self._current
        if current is not None and peer.link.attempt == current.attempt:
            current.arrived(peer, channel, number, kind, payload)

    def _credited(self, peer: Peer, credits: Sequence[tuple[ChannelId, int]]) -> None:
        current = self._current
        if current is not None and peer.link.attempt == current.attempt:
            current.credited(credits)

    def _failed(self, link: LinkId, cause: str) -> None:
        current = self._current
        if current is not None and link.attempt == current.attempt:
            current.failed(link.theirs, cause)


class AttemptNetwork:
    """Carries the messages of one attempt.

    Args:
        routes: Where they go.
        connections: The connections of this process.
    """

    def __init__(self, routes: AttemptRoutes, connections: Connections) -> None:
        self.attempt = routes.attempt
        self._routes = routes
        self._connections = connections
        self._receivers: dict[ChannelId, Put] = {}
        self._senders: dict[ChannelId, Put] = {}
        self._came_from: dict[ChannelId, Peer] = {}

    def add_task(self, inputs: Iterable[ChannelId], outputs: Iterable[ChannelId], put: Put) -> None:
        """A task of this process; to be called for all before any starts.

        Args:
            inputs: Its input channels.
            outputs: Its output channels.
            put: Puts mail into its mailbox.
        """
        self._receivers.update(dict.fromkeys(inputs, put))
        self._senders.update(dict.fromkeys(outputs, put))

    def by_process(
        self, messages: Sequence[Message]
    ) -> Iterator[tuple[Any, list[tuple[SubtaskId, Message]]]]:
        """Messages with their receivers, grouped by the actors of those; what stays here is delivered."""
        groups: dict[int, list[Addressed]] = {}
        for message in messages:
            receiver = self._routes.receivers[message.channel]
            if receiver.process == self._routes.mine:
                self._receivers[message.channel](message)
            else:
                groups.setdefault(receiver.process, []).append((receiver.subtask, message))
        for process, group in groups.items():
            yield self._routes.actors[process], group

    def send(self, message: Message) -> None:
        """Send a message in order with those before it on its channel; from any thread."""
        process = self._routes.receivers[message.channel].process
        if process == self._routes.mine:
            self._receivers[message.channel](message)
        else:
            self._connections.send(process, message, _KINDS[type(message.announces)])

    def give_credit(self, credits: Mapping[ChannelId, int]) -> None:
        """Give credit back to the senders of some channels; from any thread."""
        by_peer: dict[Peer, dict[ChannelId, int]] = {}
        for channel, size_bytes in credits.items():
            peer = self._came_from.get(channel)
            if peer is None:
                self._senders[channel](CreditReturned(channel, size_bytes))
            else:
                by_peer.setdefault(peer, {})[channel] = size_bytes
        for peer, of_peer in by_peer.items():
            peer.give_credit(of_peer)

    # ------------------------------------------------------------ on the thread of the connections

    def arrived(self, peer: Peer, channel: ChannelId, number: int, kind: DataKind, payload: Payload) -> None:
        """A message of another process arrived."""
        put = self._receivers.get(channel)
        if put is not None:
            self._came_from[channel] = peer
            announced = _ANNOUNCED[kind]
            size_bytes = 0 if kind is DataKind.PROBE else len(payload)
            put(Message(self.attempt, channel, number, payload, size_bytes, announced))  # type: ignore[arg-type]

    def credited(self, credits: Sequence[tuple[ChannelId, int]]) -> None:
        """Another process gave credit back."""
        for channel, size_bytes in credits:
            put = self._senders.get(channel)
            if put is not None:
                put(CreditReturned(channel, size_bytes))

    def failed(self, process: int, cause: str) -> None:
        """The connection to another process was lost for too long."""
        lost = {
            self._senders[channel]: channel
            for channel, receiver in self._routes.receivers.items()
            if receiver.process == process
        }
        lost |= {
            self._receivers[channel]: channel
            for channel, peer in self._came_from.items()
            if peer.link.theirs == process
        }
        for put, channel in lost.items():
            put(ConnectionFailed(channel, cause))
