"""Which paths and addresses stored documents may name."""

from __future__ import annotations

import posixpath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.checkpoints.stored_path import (
    MAX_STORED_PATH,
    address_problem,
    state_file_problem,
    stored_path_problem,
)

PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "/",
        "a",
        "shared",
        "chk-1",
        "MANIFEST",
        "%2e%2e",
        "~",
        "::",
        "://",
        "\\",
        "\0",
        "\x1b[2J",
        "ü",
    ]
)


LEADING_ELSEWHERE = [
    *("", ".", "..", "/", "/a", "a//b", "a/", "./a", "a/../b", "shared/..", "a\\..\\b", "a\0b", "a\nb"),
    *("\x1b[2Jx", "http://host/a", "s3://bucket/a", "file:///a", "zip://a::http://host/b", "a::b"),
    "x" * (MAX_STORED_PATH + 1),
]
OTHER_ADDRESSES = [
    *("", "relative", "http://host/a", "https://host/a", "ftp://host/a", "sftp://host/a", "github://a:b@/c"),
    *("zip://a::http://host/b", "simplecache::s3://bucket/a", "s3://b/a?endpoint_override=http://host"),
    *("/a/../b", "file:///a/%2e%2e/b", "file://a", "s3://bucket/http://host", "reference://a", "/a\nb"),
]


@pytest.mark.parametrize("path", LEADING_ELSEWHERE)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    assert stored_path_problem(path)
    assert state_file_problem(path, is_savepoint=True)
    assert state_file_problem(f"shared/{path}", is_savepoint=False) or not path.startswith("/")


@given(st.lists(PARTS | st.text(max_size=5), max_size=8), st.sampled_from(["", "/"]))
def test_whatever_is_accepted_is_below_the_directory_under_one_name(parts: list[str], separator: str) -> None:
    path = separator.join(parts)
    if stored_path_problem(path) is None:
        assert posixpath.normpath(posixpath.join("/root/of/job", path)) == f"/root/of/job/{path}"
        assert path.isprintable()
        assert "://" not in path
    if state_file_problem(path, is_savepoint=False) is None:
        assert posixpath.normpath(f"/job/{path}").startswith("/job/shared/")


@given(st.text(max_size=20), st.text(max_size=20))
def test_the_names_that_jobs_give_to_files_are_accepted(uid: str, state: str) -> None:
    """As `as_file_name` and the backends do: quoted, with a beginning or an end of their own."""
    operator, name_of_state = (quote(name, safe="", errors="replace") for name in (uid, state))
    name = f"shared/op-{operator}/{name_of_state}-0-1-2.parquet"
    assert state_file_problem(name, is_savepoint=False) is None
    assert state_file_problem(name.removeprefix("shared/"), is_savepoint=True) is None


@pytest.mark.parametrize(
    "address",
    [
        "/data/jobs/a/chk-1",
        "file:///data/a%20b/chk-1",
        "s3://bucket/jobs/chk-1",
        "hdfs://host:9000/jobs",
        "memory://x",
    ],
)
def test_directories_of_checkpoints_are_accepted(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize("address", OTHER_ADDRESSES)
def test_other_addresses_are_refused(address: str) -> None:
    assert address_problem(address)
