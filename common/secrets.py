"""Keeps secrets out of what people see: settings, messages, archives.

Source of the words: Flink's `GlobalConfiguration.isSensitive`, and the names that cloud stores and databases
give to theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["MASK", "is_sensitive", "masked_text", "without_secrets"]

MASK = "******"

_ANYWHERE = "password|passwd|secret|token|credential|apikey|api-key|auth-params|service-key|basic-auth|jaas"
_ANYWHERE += "|http-headers|passphrase|private"
_SENSITIVE = re.compile(
    rf"{_ANYWHERE}|(^|[._-])(key|keys|pwd|auth|accesskey|account-key)($|[._-])", re.IGNORECASE
)
# Every part is bounded, so that a long text takes no longer than its length is worth.
_USER_INFO = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s/@:]{0,256}:)[^\s/@]{1,4096}@")
_PAIR = re.compile(
    rf"(?P<name>(?:{_ANYWHERE}|access[._-]?key|account[._-]?key)[\w.-]{{0,64}}\s{{0,8}}[:=]\s{{0,8}})"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&'\"}]+)",
    re.IGNORECASE,
)


_ENTRY = re.compile(
    r"(?<![\w.-])(?P<name>[\w.-]+)(?P<between>\s*[:=]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^,;]+)"
)
"""One entry of a setting that holds several, such as `pipeline.global-job-parameters`."""


def is_sensitive(name: str) -> bool:
    """Whether a setting of this name is likely to be a secret."""
    return _SENSITIVE.search(name) is not None


def masked_text(text: str) -> str:
    """A text in which passwords of addresses, and values that are named like secrets, are masked."""
    text = _USER_INFO.sub(rf"\g<scheme>{MASK}@", text)
    return _PAIR.sub(rf"\g<name>{MASK}", text)


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by name with their secrets masked, also those inside of values."""
    return {name: MASK if is_sensitive(name) else _masked(value) for name, value in sorted(settings.items())}


def _masked(value: str) -> str:
    def entry(found: re.Match[str]) -> str:
        return f"{found['name']}{found['between']}{MASK}" if is_sensitive(found["name"]) else found[0]

    return _ENTRY.sub(entry, masked_text(value))
