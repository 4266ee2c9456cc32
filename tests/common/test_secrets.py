"""What people see of settings and messages holds no secrets, and everything else."""

from __future__ import annotations

import time

import pytest
from tidegate.common.options.known_options import known_options
from tidegate.common.secrets import MASK, is_sensitive, masked_text, without_secrets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "db.password",
        "s3.secret-key",
        "s3.access.key",
        "s3.access-key",
        "fs.azure.account.key",
        "auth_token",
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
        "google.credentials",
        "sasl.jaas.config",
        "ssl.key",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_sensitive(name)
    assert without_secrets({name: "hunter2"}) == {name: MASK}


def test_no_setting_of_tidegate_is_taken_for_a_secret() -> None:
    assert known_options()
    assert [key for key in known_options() if is_sensitive(key)] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("db.password:hunter2,colour:blue", f"db.password:{MASK},colour:blue"),
        ("colour:blue,api.key: hunter2", f"colour:blue,api.key: {MASK}"),
        ("token:'hun,ter2',x:1", f"token:{MASK},x:1"),
        ("postgresql://me:hunter2@host/db", f"postgresql://me:{MASK}@host/db"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("10 min", "10 min"),
    ],
)
def test_secrets_inside_of_values_are_masked_and_the_rest_stays(value: str, shown: str) -> None:
    assert without_secrets({"setting": value}) == {"setting": shown}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "ValueError: no way to postgresql://me:hunter2@host/db",
            f"ValueError: no way to postgresql://me:{MASK}@host/db",
        ),
        ("connect(user='me', password='hunter2')", f"connect(user='me', password={MASK})"),
        (
            "https://bucket/x?X-Amz-Security-Token=hunter2&a=1",
            f"https://bucket/x?X-Amz-Security-Token={MASK}&a=1",
        ),
        ("record with key: 5 failed", "record with key: 5 failed"),
        ("KeyError: 'word'", "KeyError: 'word'"),
        ("http://host:8081/v1/jobs", "http://host:8081/v1/jobs"),
    ],
)
def test_messages_lose_their_secrets_and_nothing_that_helps(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.parametrize("part", ["x", "token", "a://b", "secret.", "password ", "-=:"])
def test_a_long_text_takes_no_longer_than_its_length_is_worth(part: str) -> None:
    text = part * (300_000 // len(part))
    started = time.process_time()
    masked_text(text)
    # With a quadratic expression this takes minutes.
    assert time.process_time() - started < 10
