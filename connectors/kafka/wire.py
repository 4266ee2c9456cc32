"""Three requests of Kafka's protocol that librdkafka keeps to itself, on a socket of our own.

A transaction that was prepared by a process that is dead can only be committed by somebody who tells the
broker its producer id and epoch. librdkafka does so for its own transactions alone, so this asks the
broker itself: `FindCoordinator` (1), `EndTxn` (1) and `InitProducerId` (4), versions that brokers
from Kafka 2.7 on understand. Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import time

from ...common.errors import ConfigurationError
from .answers import MOST_BYTES, Answer, MalformedAnswerError
from .client import KafkaConnectorError, KafkaProperties
from .sasl import authenticate, check_sasl

logger = logging.getLogger(__name__)

_CORRELATION = 1
_FIND_COORDINATOR, _INIT_PRODUCER_ID, _END_TXN = 10, 22, 26

_PASSING = {
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    51: "CONCURRENT_TRANSACTIONS",
}
_GONE = {47: "INVALID_PRODUCER_EPOCH", 48: "INVALID_TXN_STATE", 90: "PRODUCER_FENCED"}
_FORGOTTEN = 49
"""The broker has not heard of the transactional id for `transactional.id.expiration.ms` (a week)."""
_NAMES = {
    **_PASSING, **_GONE, 49: "INVALID_PRODUCER_ID_MAPPING", 50: "INVALID_TRANSACTION_TIMEOUT",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}  # fmt: skip

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0


class TransactionCoordinators:
    """Commits and aborts transactions by their names.

    Args:
        properties: How to reach the brokers, as librdkafka takes it.
        where: The operator and subtask, for errors.
    """

    def __init__(self, properties: KafkaProperties, where: str) -> None:
        self._properties = properties
        self._where = where
        self._links: dict[tuple[str, int], _Link] = {}

    def commit(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Commit a transaction; nothing changes if that was done before.

        Raises:
            KafkaConnectorError: The broker has aborted the transaction: its records are lost to the topic.
        """
        body = _string(transactional_id) + struct.pack(">qh?", producer_id, epoch, True)
        error, _ = self._ask(transactional_id, _END_TXN, 1, body)
        if error == _FORGOTTEN:
            logger.warning(
                "%s: the broker no longer knows the transaction %s: it ended long ago, and is taken to be "
                "committed", self._where, transactional_id,
            )  # fmt: skip
        elif error:
            raise self._refused("committing", transactional_id, error)

    def abort(self, transactional_id: str) -> bool:
        """Abort what is open under an id, and let nobody who used it go on.

        Returns:
            Whether anybody had used the id.
        """
        timeout_ms = 60_000
        body = _compact_string(transactional_id) + struct.pack(">iqh", timeout_ms, -1, -1) + b"\0"
        error, answer = self._ask(transactional_id, _INIT_PRODUCER_ID, 4, body)
        if error:
            raise self._refused("aborting", transactional_id, error)
        answer.long()
        return answer.short() > 0

    def close(self) -> None:
        """End the connections."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    def _ask(self, transactional_id: str, api: int, version: int, body: bytes) -> tuple[int, Answer]:
        """Ask the coordinator of an id, and again while it is not ready.

        Returns:
            The error code of the answer, and the answer from there on.
        """
        deadline_s = time.monotonic() + self._properties.retry_timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                answer = self._coordinator(transactional_id).call(api, version, body)
                answer.number()
                error = answer.short()
                if error not in _PASSING:
                    return error, answer
                problem = _NAMES[error]
            except OSError as error:
                self.close()
                problem = str(error)
            except MalformedAnswerError as error:
                raise MalformedAnswerError(f"{self._where}: {error}") from error
            if time.monotonic() > deadline_s:
                raise KafkaConnectorError(
                    f"{self._where}: the coordinator of the transaction {transactional_id} does not answer: "
                    f"{problem}; check bootstrap.servers and that the brokers run"
                )
            time.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    def _coordinator(self, transactional_id: str) -> _Link:
        problem: OSError | None = None
        for address in bootstrap_addresses(self._properties):
            try:
                answer = self._link(address).call(_FIND_COORDINATOR, 1, _string(transactional_id) + b"\1")
            except OSError as error:
                problem = error
                self._links.pop(address, None)
                continue
            return self._link(_coordinator_in(answer))
        assert problem is not None
        raise problem

    def _link(self, address: tuple[str, int]) -> _Link:
        if address not in self._links:
            self._links[address] = _Link(address, self._properties)
        return self._links[address]

    def _refused(self, action: str, transactional_id: str, error: int) -> KafkaConnectorError:
        name = _NAMES.get(error, f"error {error}")
        if error not in _GONE:
            return KafkaConnectorError(
                f"{self._where}: {action} the transaction {transactional_id} failed: {name}"
            )
        return KafkaConnectorError(
            f"{self._where}: the transaction {transactional_id} of a complete checkpoint cannot be "
            f"committed any more ({name}): the broker aborted it, since it was open for longer than "
            f"transaction.timeout.ms. Its records are not in the topic. Raise transaction.timeout.ms "
            f"(and transaction.max.timeout.ms of the brokers) above the longest pause of the job. To go "
            f"on without these records, give the sink another uid() and restore with "
            f"execution.state-recovery.ignore-unclaimed-state"
        )


class _Link:
    """A connection to one broker."""

    def __init__(self, address: tuple[str, int], properties: KafkaProperties) -> None:
        self._peer = f"{address[0]}:{address[1]}"
        plain = socket.create_connection(address, properties.request_timeout_s)
        try:
            self._socket = _encrypted(plain, address[0], properties)
            authenticate(self.call, properties)
        except BaseException:
            plain.close()
            raise

    def call(self, api: int, version: int, body: bytes) -> Answer:
        """Send a request and wait for its answer, without the header.

        Raises:
            MalformedAnswerError: The answer is none of Kafka's protocol, or to something else.
        """
        # Only the fourth version of InitProducerId has headers with tags.
        tags = b"\0" if api == _INIT_PRODUCER_ID else b""
        message = struct.pack(">hhi", api, version, _CORRELATION) + _string("tidegate") + tags + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        prefix = self._received(4)
        (length,) = struct.unpack(">i", prefix)
        if not 0 <= length <= MOST_BYTES:
            raise Answer(prefix, self._peer).malformed(f"it declares a length of {length}")
        answer = Answer(self._received(length), self._peer)
        if answer.number() != _CORRELATION:
            raise answer.malformed("it answers another request")
        if tags:
            answer.skip(len(tags))
        return answer

    def _received(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()


def bootstrap_addresses(properties: KafkaProperties) -> list[tuple[str, int]]:
    """Host and port of each bootstrap server.

    Raises:
        ConfigurationError: One is malformed.
    """
    addresses = []
    for server in (properties.get("bootstrap.servers") or "").split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigurationError(f"bootstrap.servers has {server!r}; write host:port,host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def check_security(properties: KafkaProperties) -> None:
    """Raise `ConfigurationError` if the brokers cannot be reached from here in the way that is asked for."""
    protocol = _protocol(properties)
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ConfigurationError(f"security.protocol {protocol!r} is unknown")
    others = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.keystore.location")
    odd = [name for name in others if properties.get(name)]
    if odd:
        raise ConfigurationError(
            f"an exactly-once Kafka sink cannot use {', '.join(odd)}; name files by ssl.ca.location, "
            f"ssl.certificate.location and ssl.key.location"
        )
    if protocol.startswith("SASL"):
        check_sasl(properties)


def _protocol(properties: KafkaProperties) -> str:
    return (properties.get("security.protocol") or "PLAINTEXT").upper()


def _encrypted(plain: socket.socket, host: str, properties: KafkaProperties) -> socket.socket:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not _protocol(properties).endswith("SSL"):
        return plain
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = properties.get("ssl.certificate.location")
    if certificate is not None:
        key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
        context.load_cert_chain(certificate, key, password)
    return context.wrap_socket(plain, server_hostname=host)


def _coordinator_in(answer: Answer) -> tuple[str, int]:
    answer.number()
    error = answer.short()
    if error in _PASSING:
        raise ConnectionError(_NAMES[error])
    if error:
        raise KafkaConnectorError(f"finding a transaction's coordinator failed: {_NAMES.get(error, error)}")
    answer.string()
    answer.number()
    host, port = answer.string(), answer.number()
    if not (0 < port < 65_536 and _is_host(host)):
        raise answer.malformed(f"it names {host!r:.200} with port {port} as a broker")
    return host, port


def _is_host(text: str) -> bool:
    try:
        return bool(text.encode("idna")) and "\0" not in text
    except UnicodeError:
        return False


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _compact_string(text: str) -> bytes:
    data = text.encode()
    length, prefix = len(data) + 1, bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + data
