"""On which address and ports a process listens, for settings and interfaces."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.protocol.channels.listening import ListenRule

NODE = "10.0.0.5"
INTERFACES = [
    ("lo", "127.0.0.1"),
    ("eth0", NODE),
    ("eth1", "10.1.3.7"),
    ("eth1", "10.1.3.8"),
    ("lo", "::1"),
    ("eth2", "fe80::1"),
    ("eth2", "fd00::7"),
]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ("", NODE),
        ("10.1.0.0/16", "10.1.3.7"),
        ("10.0.0.0/8", NODE),
        ("0.0.0.0/0", NODE),
        ("192.168.0.0/16, 10.1.0.0/16", "10.1.3.7"),
        ("10.1.3.8", "10.1.3.8"),
        ("eth1", "10.1.3.7"),
        ("eth9,eth0", NODE),
        ("eth2", "fd00::7"),
        ("fd00::/8", "fd00::7"),
        ("::/0", "fd00::7"),
        ("127.0.0.0/8", "127.0.0.1"),
        ("lo", "127.0.0.1"),
    ],
)
def test_the_first_place_that_the_node_has_applies(places: str, expected: str) -> None:
    assert ListenRule.parse(places, "0").address(NODE, INTERFACES) == expected


def test_a_node_without_such_an_address_is_named_with_what_it_has() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ListenRule.parse("172.16.0.0/12,wlan0", "0").address(NODE, INTERFACES)
    message = str(raised.value)
    assert "node 10.0.0.5 has no address in 172.16.0.0/12, wlan0 (tidegate.network.address)" in message
    assert "eth1 10.1.3.7" in message


def test_every_port_is_tried_once_from_any_start() -> None:
    rule = ListenRule.parse("", " 50100-50102, 6000")
    assert list(rule.candidates(1)) == [50101, 50102, 6000, 50100]
    assert sorted(rule.candidates(99)) == [6000, 50100, 50101, 50102]
    assert rule.ports_text == "50100-50102,6000"
    assert list(ListenRule.parse("", "0").candidates(7)) == [0]


@pytest.mark.parametrize("ports", ["", "x", "-1", "0-5", "5,0", "7-5", "65536", "1-70000", "1-2-3", "1,,2"])
def test_ports_that_make_no_sense_are_refused(ports: str) -> None:
    with pytest.raises(ConfigurationError, match=r"taskmanager.data.bind-port is .* example 50100-50200"):
        ListenRule.parse("", ports)


@pytest.mark.parametrize("places", ["10.0.0", "10.0.0.0/33", "*", "10.1.*", "300.1.1.1", "a name", "x" * 16])
def test_places_that_make_no_sense_are_refused(places: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tidegate.network.address contains .* Use for example"):
        ListenRule.parse(places, "0")
