"""Decides on which address and ports a task process listens for those of other nodes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...common.errors import ConfigurationError

ADDRESS_KEY = "tidegate.network.address"
PORT_KEY = "taskmanager.data.bind-port"

_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.@:-]{0,14}")
_LAST_PORT = 65_535

Interfaces = Sequence[tuple[str, str]]
"""The name of a network interface and one of its addresses, for each address of a node."""


@dataclass(frozen=True, slots=True)
class ListenRule:
    """Where the processes of a job listen.

    Attributes:
        places: Networks such as `10.1.0.0/16`, and names of interfaces; the first that a node has applies.
            Empty for the address by which Ray knows the node.
        ports: First and last port of each range; `(0, 0)` is any port that is free.
    """

    places: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ((0, 0),)

    @staticmethod
    def parse(places: str, ports: str) -> ListenRule:
        """The rule in two settings.

        Args:
            places: Networks and names of interfaces, separated by commas; may be empty.
            ports: Ports and ranges of ports, separated by commas.

        Raises:
            ConfigurationError: One of them is malformed.
        """
        entries = tuple(entry.strip() for entry in places.split(",") if entry.strip())
        for entry in entries:
            if _network(entry) is None and not _INTERFACE.fullmatch(entry):
                raise ConfigurationError(
                    f"{ADDRESS_KEY} contains {entry!r}, which is neither a network nor the name of a network "
                    f"interface. Use for example 10.1.0.0/16 or eth1"
                )
        return ListenRule(entries, tuple(_ports(entry.strip(), ports) for entry in ports.split(",")))

    def address(self, node_address: str, interfaces: Interfaces) -> str:
        """The address to listen on.

        Args:
            node_address: The address by which Ray knows the node.
            interfaces: What the node has.

        Raises:
            ConfigurationError: The node has none that the rule allows.
        """
        if not self.places:
            return node_address
        for place in self.places:
            there = [address for name, address in interfaces if _is_in(place, name, address)]
            if there:
                return node_address if node_address in there else there[0]
        has = ", ".join(f"{name} {address}" for name, address in interfaces)
        raise ConfigurationError(
            f"node {node_address} has no address in {', '.join(self.places)} ({ADDRESS_KEY}); it has {has}. "
            f"Add a network or an interface of this node to {ADDRESS_KEY}"
        )

    def candidates(self, start: int) -> Iterator[int]:
        """The ports, each once.

        Args:
            start: A random number: the processes of a node begin at different ports.
        """
        ports = [port for first, last in self.ports for port in range(first, last + 1)]
        begin = start % len(ports)
        yield from ports[begin:]
        yield from ports[:begin]

    @property
    def ports_text(self) -> str:
        """The ports as in the setting."""
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ports)


ANY_PORT = ListenRule()
"""Ray's address of the node, and any port that is free."""


def _ports(entry: str, text: str) -> tuple[int, int]:
    first, _, last = (part.strip() for part in entry.partition("-"))
    last = last or first
    is_number = first.isdecimal() and last.isdecimal()
    if is_number and int(first) <= int(last) <= _LAST_PORT and (int(first) > 0 or text.strip() == "0"):
        return int(first), int(last)
    raise ConfigurationError(
        f"{PORT_KEY} is {text!r}, which is not a list of ports and ranges between 1 and {_LAST_PORT}. Use "
        f"for example 50100-50200, or 0 for any free port"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _network(place: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(place, strict=False)
    except ValueError:
        return None


def _is_in(place: str, name: str, address: str) -> bool:
    network, parsed = _network(place), ipaddress.ip_address(address)
    if network is None:
        return place == name and not parsed.is_link_local
    if parsed.is_loopback and not network.is_loopback:
        return False
    return parsed in network and not parsed.is_link_local
