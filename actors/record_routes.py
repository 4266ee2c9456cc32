"""Which processes of an attempt exchange records, and when they can be told where the others are."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common.errors import first_line
from ..coordinator.deployment.slots import process_key
from ..coordinator.spec import JobSettings
from ..protocol.ids import Attempt
from ..protocol.scheduling.execution_graph import ExecutionGraph, Subtask
from ..runtime.network.listeners import Address
from ..runtime.network.records_network import AttemptRoutes, Receiver
from .task_processes import TaskProcess

_SECRET_BYTES = 32

Answered = Callable[[Any, "BaseException | None"], None]
"""Takes the answer of an actor, or its error."""

Call = Callable[[Any, Answered], None]
"""Has the answer of an actor, or its error, taken on the coordinator's thread."""


class RayRoutes:
    """The processes of one attempt and the connections between them.

    An attempt has a secret of its own, so that a process of an earlier one cannot take part in it.

    Args:
        attempt: The attempt.
        graph: Its subtasks.
        processes: The processes with these subtasks, by their keys.
        settings: How long a connection may be lost, and where processes listen.
        when_done: Takes the answer of an actor's call.
    """

    def __init__(
        self,
        attempt: Attempt,
        graph: ExecutionGraph,
        processes: Mapping[str, TaskProcess],
        settings: JobSettings,
        when_done: Call,
    ) -> None:
        self._attempt = attempt
        self._graph = graph
        self._processes = dict(processes)
        self._settings = settings
        self._when_done = when_done
        self._numbers = {key: number for number, key in enumerate(self._processes)}
        self._actors = [process.actor for process in self._processes.values()]
        # Not for each channel: an exchange of 1,000 with 1,000 subtasks has a million.
        self._places = {
            subtask_id: Receiver(self._numbers[process_key(subtask)], subtask_id)
            for subtask_id, subtask in graph.subtasks.items()
        }
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._routes: dict[str, AttemptRoutes] = {}
        self._addresses: dict[str, Address] = {}
        self._is_listening = False

    def of(self, key: str, members: Sequence[Subtask]) -> AttemptRoutes:
        """What a process has to know of the others.

        Args:
            key: The process.
            members: Its subtasks.
        """
        receivers = {
            channel: self._places[self._graph.receiver_of(channel)]
            for member in members
            for out in member.outputs
            for channel in out.channels
        }
        senders = {
            self._places[self._graph.sender_of(entry.channel)].process
            for member in members
            for entry in member.inputs
        }
        named = {receiver.process for receiver in receivers.values()} - {self._numbers[key]}
        actors = {number: self._actors[number] for number in named}
        routes = AttemptRoutes(
            self._attempt,
            self._numbers[key],
            self._secret,
            receivers,
            actors,
            frozenset(senders),
            self._settings.reconnect_timeout_ms,
        )
        self._routes[key] = routes
        return routes

    def deployed(self, key: str, address: Address, failed: Callable[[str, str], None]) -> None:
        """A process has its subtasks and can be reached; when all can, they open their connections.

        Args:
            key: The process.
            address: Where it is.
            failed: Takes the key of a process that cannot be reached by others, and why.
        """
        self._addresses[key] = address
        if len(self._addresses) < len(self._numbers):
            return
        nodes = {address.node_id for address in self._addresses.values()}
        unreachable = [key for key, address in self._addresses.items() if not address.host]
        if len(nodes) > 1 and unreachable and not self._is_listening:
            self._is_listening = True
            for other in unreachable:
                del self._addresses[other]
            for other in unreachable:
                answer = self._processes[other].actor.listen.remote(self._settings.listen_rule)
                self._when_done(answer, self._listening(other, failed))
            return
        self._connect()

    def _listening(self, key: str, failed: Callable[[str, str], None]) -> Answered:
        def answered(address: Address | None, error: BaseException | None) -> None:
            if address is not None:
                self.deployed(key, address, failed)
            else:
                # What Ray raises begins with the name of the method.
                failed(key, f"cannot listen for other nodes: {first_line(getattr(error, 'cause', error))}")

        return answered

    def _connect(self) -> None:
        addresses = {self._numbers[key]: address for key, address in self._addresses.items()}
        for key, routes in self._routes.items():
            if routes.peers:
                known = {number: addresses[number] for number in {*routes.peers, routes.mine}}
                self._processes[key].actor.connect.remote(self._attempt, known)
