"""The packages that only the web console needs."""

from __future__ import annotations

from ..common.errors import ConfigurationError


def require_extra() -> None:
    """Raise `ConfigurationError` if they are missing, with what to install."""
    try:
        import fastapi  # noqa: F401 (only whether it is there)
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"the console needs {error.name}, which is not installed: pip install 'tidegate[console]'"
        ) from error
