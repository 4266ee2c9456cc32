"""The network interfaces of this node."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
from array import array

from ..common.errors import ConfigurationError
from ..protocol.channels.listening import ADDRESS_KEY

_SIOCGIFCONF = 0x8912
_ENTRY = struct.Struct("16s4x4s16x")
"""An IPv4 address in the kernel's answer: the name of the interface, and the address."""
_MOST = 1_024
_IPV6 = "/proc/net/if_inet6"


def interface_addresses() -> list[tuple[str, str]]:
    """The name of the interface and the address, for each address of this node.

    Raises:
        ConfigurationError: This is not Linux on a 64-bit machine.
    """
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        raise ConfigurationError(f"{ADDRESS_KEY} works on 64-bit Linux only. Remove it from the settings")
    return [*_ipv4(), *_ipv6()]


def _ipv4() -> list[tuple[str, str]]:
    entries = array("B", bytes(_ENTRY.size * _MOST))
    request = struct.pack("iP", len(entries), entries.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        size = struct.unpack("iP", fcntl.ioctl(any_socket, _SIOCGIFCONF, request))[0]
    found = _ENTRY.iter_unpack(entries.tobytes()[:size])
    return [(name.split(b"\0")[0].decode(), socket.inet_ntoa(address)) for name, address in found]


def _ipv6() -> list[tuple[str, str]]:
    try:
        with open(_IPV6, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        # The kernel has no IPv6.
        return []
    return [(line[-1], str(ipaddress.IPv6Address(bytes.fromhex(line[0])))) for line in lines]
