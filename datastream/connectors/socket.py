"""The socket text source, beside the other connectors' import paths."""

from __future__ import annotations

from ...connectors.socket_source import SocketConnectionError, SocketTextSource

__all__ = ["SocketConnectionError", "SocketTextSource"]
