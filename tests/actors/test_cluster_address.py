"""A cluster that goes away while it is asked is named before Ray ends the process without a word of ours."""

from __future__ import annotations

import socket

import pytest
from tidegate.actors.cluster_address import HEAD_AWAY_S, HeadWatch
from tidegate.common.errors import ClusterUnreachableError
from tidegate.console.exit_codes import ExitCode, exit_code_of


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_head_that_stays_away_is_an_error_and_one_that_comes_back_is_not() -> None:
    clock, listener = Clock(), socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    watch = HeadWatch(f"{host}:{port}", clock)
    watch.check()
    listener.close()
    for clock.now_s in (10.0, 10.0 + HEAD_AWAY_S - 1):
        watch.check()
    with socket.create_server((host, port)):
        watch.check()
    clock.now_s += HEAD_AWAY_S
    watch.check()
    clock.now_s += HEAD_AWAY_S
    with pytest.raises(ClusterUnreachableError, match=rf"{host}:{port} is gone: .*state-recovery") as gone:
        watch.check()
    assert exit_code_of(gone.value) is ExitCode.UNREACHABLE


def test_the_error_comes_before_ray_ends_the_process() -> None:
    # RAY_gcs_rpc_server_reconnect_timeout_s; a connection may be tried for ten seconds more.
    assert HEAD_AWAY_S + 10 < 60
