"""The secret of a console, and tokens of it that end.

Whoever has the secret may do everything. From the secret tokens can be made that do the same until a moment:
`v1.<seconds since the epoch>.<HMAC-SHA256 over both>`, so that the console needs to remember none of them.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from ...common.errors import ConfigurationError

VARIABLE = "TIDEGATE_CONSOLE_TOKEN"
_MIN_CHARS = 16
_MAX_CHARS = 512
_VERSION = "v1"


class TokenCheck(enum.Enum):
    """What a token is worth."""

    VALID = "valid"
    EXPIRED = "expired"
    WRONG = "wrong"


class ConsoleSecret:
    """What a console checks tokens against.

    Args:
        text: The secret, at least 16 characters.

    Raises:
        ConfigurationError: It is too short, too long, or holds what no header can carry.
    """

    def __init__(self, text: str) -> None:
        if not _MIN_CHARS <= len(text) <= _MAX_CHARS or not text.isascii() or not text.isprintable():
            raise ConfigurationError(
                f"a console's token needs {_MIN_CHARS} to {_MAX_CHARS} printable ASCII characters, and this "
                f"one does not fit; make one with `openssl rand -hex 32`"
            )
        self._text = text.encode()

    def __repr__(self) -> str:
        return "<the secret of a console>"

    def token_until(self, expires_s: int) -> str:
        """A token that is valid until a moment, in seconds since the Unix epoch."""
        return f"{_VERSION}.{expires_s}.{self._signature(str(expires_s))}"

    def check(self, token: str, now_s: float) -> TokenCheck:
        """Judge a token, or the secret itself, in a time that does not depend on where it differs."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._text):
            return TokenCheck.VALID
        version, _, rest = token.partition(".")
        expires, _, signature = rest.partition(".")
        is_signed = hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._signature(expires).encode()
        )
        if version != _VERSION or not is_signed or not (expires.isascii() and expires.isdigit()):
            return TokenCheck.WRONG
        return TokenCheck.VALID if now_s < int(expires) else TokenCheck.EXPIRED

    def _signature(self, expires: str) -> str:
        signed = f"tidegate-console {_VERSION} {expires}".encode("utf-8", "replace")
        return hmac.new(self._text, signed, hashlib.sha256).hexdigest()


def stored_secret(path: Path) -> str:
    """The secret in a file; a new one is made, for its owner only, where there is no file.

    Raises:
        ConfigurationError: The file cannot be used, or others may read it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise ConfigurationError(
            f"the console's token cannot be kept in {path}: {error}; name another file with --token-file, or "
            f"set {VARIABLE}"
        ) from error
    text = secrets.token_hex(32)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")
    return text


def _read(path: Path) -> str:
    try:
        is_open = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the console's token cannot be read from {path}: {error}") from error
    if is_open:
        raise ConfigurationError(f"others may read the console's token in {path}; run `chmod 600 {path}`")
    return text


def default_token_file() -> Path:
    """Where a console keeps its secret if nothing else was said."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tidegate" / "console-token"
