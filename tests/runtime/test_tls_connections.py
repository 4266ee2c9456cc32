"""Connections between nodes with TLS: on TCP of one machine, with the ids of two nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.protocol.channels.frames import DataKind, LargePayload
from tidegate.protocol.ids import Attempt
from tidegate.runtime.network.listeners import ListenOn
from tidegate.runtime.network.tls import TlsSocket
from tidegate.runtime.network.tls_files import TlsFiles, TlsFilesError, TlsIdentities

from ..certificates import Authority
from .processes import DEADLINE_S, Process, addresses, begin, connect, message

Pair = tuple[Process, Process]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.contextmanager
def processes(*tls: TlsFiles | None) -> Iterator[Pair]:
    pair = Process(tls[0]), Process(tls[1])
    try:
        yield pair
    finally:
        for process in pair:
            process.connections.close()


def failure(*tls: TlsFiles | None) -> str:
    """Why a process cannot connect to another one, with these certificates."""
    with processes(*tls) as pair:
        begin(pair, timeout_ms=1_000)
        connect(pair, is_tcp=True)
        cause = pair[0].wait_for_failure()
        assert pair[1].got == []
        return cause


def test_messages_in_both_directions_arrive_in_order_and_encrypted(authority: Authority) -> None:
    with processes(authority.files("a"), authority.files("b")) as pair, Tap(pair[1]) as tap:
        begin(pair)
        known = {**addresses(pair, is_tcp=True), 1: tap.address}
        for process in pair:
            process.connections.connect(Attempt(1), known)

        def send(mine: int) -> None:
            for number in range(100):
                payload = b"not to be read %d " % number * (number * 400)
                pair[mine].connections.send(1 - mine, message(number, payload), DataKind.ELEMENTS)

        threads = [threading.Thread(target=send, args=(mine,)) for mine in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for mine in range(2):
            assert pair[mine].wait_for(100) == list(range(100))
            last = pair[mine].got[99][1]
            assert isinstance(last, LargePayload)
            assert last.data == b"not to be read 99 " * 99 * 400
        connection = pair[0].connections._links.peers[1].socket
        assert isinstance(connection, TlsSocket)
        assert connection._tls.version() == "TLSv1.3"
    assert tap.seen > 10_000_000
    assert not tap.read_plain


class Tap:
    """A process in the middle, which reads what passes."""

    def __init__(self, target: Process) -> None:
        there = target.connections.address("node 1", ListenOn("127.0.0.1", target.tls))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = dataclasses.replace(there, port=self._listener.getsockname()[1])
        self._target = (there.host, there.port)
        self.seen, self.read_plain = 0, False
        self._threads = [threading.Thread(target=self._run)]
        self._open: list[socket.socket] = []

    def __enter__(self) -> Tap:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in [*self._open, self._listener]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            ends = [self._listener.accept()[0], socket.create_connection(self._target)]
            self._open += ends
            back = threading.Thread(target=self._copy, args=(ends[1], ends[0]))
            self._threads.append(back)
            back.start()
            self._copy(ends[0], ends[1])

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.seen += len(data)
                self.read_plain |= b"not to be read" in data
                target.sendall(data)


def test_lost_connections_are_opened_again_and_nothing_is_lost_or_doubled(authority: Authority) -> None:
    with processes(authority.files("a"), authority.files("b")) as pair:
        begin(pair)
        connect(pair, is_tcp=True)
        for number in range(2_000):
            pair[0].connections.send(1, message(number, b"z" * 5_000), DataKind.ELEMENTS)
            if number % 200 == 100:
                pair[number // 200 % 2].cut(1 - number // 200 % 2)
        assert pair[1].wait_for(2_000) == list(range(2_000))
        assert not pair[0].failed


def test_processes_of_one_node_use_no_tls(authority: Authority) -> None:
    with processes(authority.files("a"), authority.files("b")) as pair:
        begin(pair)
        connect(pair, is_tcp=False)
        pair[0].connections.send(1, message(0), DataKind.ELEMENTS)
        pair[1].wait_for(1)
        connection = pair[0].connections._links.peers[1].socket
        assert isinstance(connection, socket.socket)
        assert connection.family == socket.AF_UNIX


def test_a_certificate_that_was_renewed_applies_to_the_next_connection(authority: Authority) -> None:
    mine = authority.files("a", days=-1)
    with processes(mine, authority.files("b")) as pair:
        begin(pair)
        connect(pair, is_tcp=True)
        assert authority.files("a") == mine
        pair[0].connections.send(1, message(0), DataKind.ELEMENTS)
        assert pair[1].wait_for(1) == [0]


@pytest.mark.slow
def test_a_peer_of_another_authority_is_refused_at_both_ends(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    cause = failure(authority.files("a"), other.files("b"))
    assert "the certificate of the other end is not signed by a certificate in" in cause
    assert "ca.crt (RAY_TLS_CA_CERT). Use one CA for all nodes" in cause
    theirs = other.files("c")
    accepts = TlsFiles(theirs.certificate, theirs.key, authority.files("b").authority)
    cause = failure(accepts, authority.files("b"))
    assert "c.crt (RAY_TLS_SERVER_CERT) of this process is not signed by a CA that the other end" in cause


@pytest.mark.slow
def test_expired_certificates_are_refused_at_both_ends(authority: Authority) -> None:
    good, expired = authority.files("a"), authority.files("old", days=-1)
    cause = failure(good, expired)
    assert "127.0.0.1" in cause
    assert "the certificate of the other end has expired. Renew the file that RAY_TLS_SERVER_CERT" in cause
    cause = failure(expired, good)
    assert "old.crt (RAY_TLS_SERVER_CERT) of this process has expired. Renew it" in cause


@pytest.mark.slow
def test_a_peer_without_tls_is_refused_at_both_ends(authority: Authority) -> None:
    files = authority.files("a")
    assert "the other end uses TLS, and this process does not. Set RAY_USE_TLS" in failure(None, files)
    assert "the other end does not use TLS, and this process does. Set RAY_USE_TLS" in failure(files, None)


def test_a_process_with_a_certificate_that_passes_the_handshake_on_is_refused(authority: Authority) -> None:
    """Each end has TLS with the process in the middle, which has a good certificate, but no secret."""
    middle = TlsIdentities(authority.files("middle")).current()
    with processes(authority.files("a"), authority.files("b")) as pair:
        begin(pair, timeout_ms=1_000)
        known = addresses(pair, is_tcp=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            for process in pair:
                process.connections.connect(
                    Attempt(1), {**known, 1: dataclasses.replace(known[1], port=port)}
                )
            raw, _ = listener.accept()
            with (
                middle.server.wrap_socket(raw, server_side=True) as dialer,
                socket.create_connection(("127.0.0.1", known[1].port)) as forward,
                middle.client.wrap_socket(forward) as target,
            ):
                target.sendall(dialer.recv(1_000))
                dialer.sendall(target.recv(1_000))
                with contextlib.suppress(OSError):
                    assert dialer.recv(1_000) == b"", "the dialer proved itself to a process in the middle"


def test_a_stranger_without_a_certificate_is_disconnected_and_changes_nothing(authority: Authority) -> None:
    with processes(authority.files("a"), authority.files("b")) as pair:
        begin(pair)
        connect(pair, is_tcp=True)
        port = addresses(pair, is_tcp=True)[1].port
        context = ssl.create_default_context(cafile=authority.files("c").authority)
        context.check_hostname = False
        for stranger_says in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000), bytes(9)):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stranger:
                with contextlib.suppress(OSError):
                    stranger.sendall(stranger_says)
                with contextlib.suppress(OSError):
                    while stranger.recv(1_000):
                        pass
        with (
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stranger,
            context.wrap_socket(stranger) as wrapped,
            pytest.raises(OSError, match=r"(?i)certificate|reset"),
        ):
            wrapped.recv(1)
        pair[0].connections.send(1, message(0), DataKind.ELEMENTS)
        assert pair[1].wait_for(1) == [0]
        assert not pair[0].failed
        assert not pair[1].failed


def test_files_that_cannot_be_used_are_named_with_their_variable(
    authority: Authority, tmp_path: Path
) -> None:
    good, other = authority.files("a"), authority.files("b")
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    nothing = str(empty)
    cert, key, ca = (rf"\(RAY_TLS_{name}\)" for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT"))
    for files, expected in (
        (dataclasses.replace(good, certificate="/nowhere.crt"), f"cannot read /nowhere.crt {cert}"),
        (dataclasses.replace(good, key=str(tmp_path)), f"cannot read .* {key}: Is a directory"),
        (dataclasses.replace(good, key=other.key), f"b.key {key} does not belong to .*a.crt {cert}"),
        (dataclasses.replace(good, certificate=nothing), f"empty.pem {cert} contains no certificate"),
        (dataclasses.replace(good, key=nothing), f"empty.pem {key} contains no private key"),
        (dataclasses.replace(good, authority=nothing), f"empty.pem {ca} contains no certificates"),
    ):
        with processes(files, None) as pair, pytest.raises(TlsFilesError, match=expected):
            pair[0].connections.address("node 0", ListenOn("127.0.0.1", files))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_key_that_this_user_may_not_read_is_named(authority: Authority) -> None:
    files = authority.files("a")
    Path(files.key).chmod(0)
    with pytest.raises(TlsFilesError, match=r"RAY_TLS_SERVER_KEY\): Permission denied"):
        TlsIdentities(files).current()


def test_the_environment_of_ray_names_the_files() -> None:
    names = {"RAY_TLS_SERVER_CERT": "c", "RAY_TLS_SERVER_KEY": "k", "RAY_TLS_CA_CERT": "a"}
    for value in ("", "0", "false"):
        assert TlsFiles.from_environment({**names, "RAY_USE_TLS": value}) is None
    for value in ("1", "true", "True"):
        assert TlsFiles.from_environment({**names, "RAY_USE_TLS": value}) == TlsFiles("c", "k", "a")
    with pytest.raises(TlsFilesError, match="but RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT are not set"):
        TlsFiles.from_environment({"RAY_USE_TLS": "1", "RAY_TLS_SERVER_CERT": "c"})
