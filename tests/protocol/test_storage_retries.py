from __future__ import annotations

import errno

import pytest
from tidegate.protocol.checkpoints.storage_retries import (
    StorageRetryPolicy,
    is_transient,
    is_transient_status,
)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "input/output error"),
        OSError(errno.ESTALE, "stale file handle"),
        OSError(errno.ETIMEDOUT, "timed out"),
        ConnectionResetError(),
        TimeoutError("no answer"),
        OSError("When reading key 'a' in bucket 'b': AWS Error SLOW_DOWN during GetObject operation: wait"),
        OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Couldn't connect"),
        OSError("AWS Error UNKNOWN (HTTP status 503) during PutObject operation: No response body."),
        OSError("google::cloud::Status(UNAVAILABLE: Retry policy exhausted)"),
    ],
)
def test_what_may_pass_by_itself_is_transient(error: BaseException) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "no such file"),
        FileNotFoundError("no such key"),
        PermissionError(errno.EACCES, "permission denied"),
        OSError(errno.ENOSPC, "no space left on device"),
        OSError(errno.EDQUOT, "quota exceeded"),
        OSError(errno.EROFS, "read-only file system"),
        OSError(errno.ENOTDIR, "not a directory"),
        OSError("AWS Error ACCESS_DENIED during PutObject operation: Access Denied"),
        OSError("AWS Error NO_SUCH_BUCKET during PutObject operation"),
        ValueError("SLOW_DOWN"),
        KeyboardInterrupt(),
    ],
)
def test_what_stays_as_it_is_is_not_transient(error: BaseException) -> None:
    assert not is_transient(error)


def test_the_answers_of_a_busy_object_store_are_transient() -> None:
    assert all(is_transient_status(status) for status in (409, 429, 500, 503))
    assert not any(is_transient_status(status) for status in (200, 400, 403, 404, 412))


def test_delays_double_up_to_a_bound_and_end_after_a_number_of_tries() -> None:
    policy = StorageRetryPolicy(tries=6, first_delay_ms=100, most_delay_ms=500)
    delays = [policy.delay_ms(failures, 0.0, fraction=1.0) for failures in range(1, 7)]
    assert delays == [100, 200, 400, 500, 500, None]


def test_delays_differ_between_callers() -> None:
    policy = StorageRetryPolicy()
    assert policy.delay_ms(1, 0.0, fraction=0.0) == 50
    assert policy.delay_ms(1, 0.0, fraction=0.5) == 75


def test_no_try_begins_after_the_longest_time() -> None:
    policy = StorageRetryPolicy(most_elapsed_ms=10_000)
    assert policy.delay_ms(1, 9_900.0, fraction=1.0) == 100
    assert policy.delay_ms(1, 9_901.0, fraction=1.0) is None
