"""Secrets are masked wherever a text holds them, in time that grows with its length only."""

from __future__ import annotations

import time

import pytest
from tidegate.common.secrets import masked_text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://ada:s3cret@host/db", "postgresql://ada:******@host/db"),
        ("my.db.password = 'a b'; next", "my.db.password = ******; next"),
        ("AWS_SECRET_ACCESS_KEY=abc,region=eu", "AWS_SECRET_ACCESS_KEY=******,region=eu"),
        ("the token was refused", "the token was refused"),
    ],
)
def test_passwords_of_addresses_and_values_named_like_secrets_are_masked(text: str, masked: str) -> None:
    assert masked_text(text) == masked


@pytest.mark.parametrize("part", ["x", "token", "a://b", "secret.", "password ", "-=:"])
def test_a_long_text_takes_no_longer_than_its_length_is_worth(part: str) -> None:
    text = part * (300_000 // len(part))
    started = time.process_time()
    masked_text(text)
    # With a quadratic expression this takes minutes.
    assert time.process_time() - started < 10
