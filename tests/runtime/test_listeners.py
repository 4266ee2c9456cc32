"""Where a process listens, and what it says of addresses that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tidegate.protocol.channels.listening import ListenRule
from tidegate.protocol.ids import Attempt
from tidegate.runtime.interfaces import interface_addresses
from tidegate.runtime.network.listeners import Address, Listeners, ListenOn, listen_on

from ..free_ports import free_ports
from .processes import Process, begin


@pytest.fixture
def listeners() -> Iterator[list[Listeners]]:
    several = [Listeners(lambda _: None) for _ in range(4)]
    yield several
    for each in several:
        each.close()


def test_the_interfaces_of_this_machine_are_found() -> None:
    assert ("lo", "127.0.0.1") in interface_addresses()


def test_processes_of_a_node_share_a_range_of_ports_until_none_is_left(listeners: list[Listeners]) -> None:
    first = free_ports(3)
    rule = ListenRule.parse("127.0.0.0/8", f"{first}-{first + 2}")
    on = listen_on(rule, "192.0.2.1")
    assert on.host == "127.0.0.1"
    ports = {each.address("node", on).port for each in listeners[:3]}
    assert ports == {first, first + 1, first + 2}
    expected = rf"no port of {first}-{first + 2} \(taskmanager.data.bind-port\) is free at 127.0.0.1. Each"
    with pytest.raises(OSError, match=expected):
        listeners[3].address("node", on)
    listeners[0].close()
    assert listeners[3].address("node", on).port in ports


def test_an_address_that_the_node_does_not_have_is_named(listeners: list[Listeners]) -> None:
    with pytest.raises(OSError, match=r"192.0.2.77:0: Cannot assign requested address"):
        listeners[0].address("node", ListenOn("192.0.2.77"))


def on_two_nodes(both: tuple[Process, Process]) -> dict[int, Address]:
    """The addresses of both, as if each were on a node of its own."""
    return {
        number: process.connections.address(f"node {number}", ListenOn(f"127.0.0.{number + 1}"))
        for number, process in enumerate(both)
    }


def test_the_error_for_an_unreachable_address_names_both_and_the_settings() -> None:
    both = Process(), Process()
    try:
        begin(both, timeout_ms=1_000)
        known = on_two_nodes(both)
        both[1].connections.close()
        both[0].connections.connect(Attempt(1), known)
        assert (
            f"from 127.0.0.1 to 127.0.0.2:{known[1].port} (tidegate.network.address and "
            "taskmanager.data.bind-port select these addresses): "
        ) in both[0].wait_for_failure()
    finally:
        both[0].connections.close()


def test_the_end_that_waits_for_a_connection_names_both_addresses_too() -> None:
    both = Process(), Process()
    try:
        begin(both, timeout_ms=1_000)
        known = on_two_nodes(both)
        both[1].connections.connect(Attempt(1), known)
        assert both[1].wait_for_failure() == (
            f"from 127.0.0.1 to 127.0.0.2:{known[1].port} (tidegate.network.address and "
            "taskmanager.data.bind-port select these addresses): no connection was opened"
        )
    finally:
        for process in both:
            process.connections.close()
