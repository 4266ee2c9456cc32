"""The records of a running job in the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..coordinator.control.job_client import JobClient


class CloseableIterator:
    """Records of a running job, as they arrive. Closing it early cancels the job."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._records = client.collected()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def next(self) -> Any:
        """The next record; raises `StopIteration` at the end."""
        return next(self._records)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the job if it still runs."""
        self._client.close()
