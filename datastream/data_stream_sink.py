"""The end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .settings.operator_settings import OperatorSettings
from .transformation import Transformation

if TYPE_CHECKING:
    from .stream_execution_environment import StreamExecutionEnvironment


class DataStreamSink(OperatorSettings):
    """The end of a stream: a sink, whose name, uid and place can be set."""

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    @property
    def transformation(self) -> Transformation:
        """The sink's operator."""
        return self._transformation
