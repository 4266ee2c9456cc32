"""Creates the server from which executors fetch the records of an operator."""

from __future__ import annotations

from ..protocol.channels.listening import ListenRule
from ..runtime.network.listeners import ListenOn, listen_on
from .exchange.exchange_server import ExchangeServer
from .settings import SparkSettings


def exchange_server(where: str, session: SparkSettings, rule: ListenRule, directory: str) -> ExchangeServer:
    """A server that listens as soon as it has something to serve.

    Args:
        where: The operator and its subtask, for messages.
        session: How the session is started: executors of RayDP may be on other nodes.
        rule: On which address and port to listen for those.
        directory: For results that do not fit into memory.
    """

    def listen() -> ListenOn | None:
        if not session.use_raydp:
            return None
        from .ray_actors import node_address

        return listen_on(rule, node_address())

    return ExchangeServer(where, listen, directory)
