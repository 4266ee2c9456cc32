"""Writing values as bytes (names of `pyflink.common.serializer`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type to a stream of bytes, and reads them back."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write one value."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read the value that stands next in the stream."""
