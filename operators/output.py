"""Where an operator sends what it makes: the next operators of its chain, and the exchanges of its task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..protocol.elements import MAX_WATERMARK_MS, Batch
from .typed_output import OutputTypes, typed

Emit = Callable[[Batch], None]


@dataclass(frozen=True, slots=True)
class Receiver:
    """One edge as its sender sees it.

    Attributes:
        emit: Takes records.
        emit_watermark: Takes a watermark, in milliseconds.
        emit_status: Takes word that the sender is idle (true) or active again.
        output_tag: Id of the side output that the edge carries, `None` for the main output.
    """

    emit: Emit
    emit_watermark: Callable[[int], None]
    emit_status: Callable[[bool], None]
    output_tag: str | None = None


class Output:
    """What an operator emits into.

    Args:
        receivers: The edges that leave the operator. Watermarks and idleness go to all of them, records to
            those of the main output, or of the side output they are for.
        is_batch: Whether event time only passes at the end, so that all other watermarks are dropped.

    Attributes:
        emit: Sends records to the main output. What nobody receives is dropped.
    """

    def __init__(self, receivers: Iterable[Receiver] = (), is_batch: bool = False) -> None:
        self._is_batch = is_batch
        self._receivers = list(receivers)
        self.emit: Emit = _combined([each.emit for each in self._receivers if each.output_tag is None])
        tags = {each.output_tag for each in self._receivers if each.output_tag is not None}
        self._sides = {
            tag: _combined([each.emit for each in self._receivers if each.output_tag == tag]) for tag in tags
        }

    def hold_to(self, types: OutputTypes, sender: str) -> None:
        """From now on, bring records to the declared types; others raise `OutputTypeError`.

        Args:
            sender: what emits, for errors: `operator Map (1/2)`.
        """
        self.emit = typed(self.emit, types.main, sender, types.declared_at)
        for tag, type_info in types.sides.items():
            if tag in self._sides:
                what = f"{sender}, side output {tag!r},"
                self._sides[tag] = typed(self._sides[tag], type_info, what, types.declared_at)

    @property
    def side_ids(self) -> frozenset[str]:
        """Ids of the side outputs that somebody receives."""
        return frozenset(self._sides)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Send records to a side output; they are dropped when nobody receives it."""
        emit = self._sides.get(tag_id)
        if emit is not None:
            emit(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """No record with an event time at or before this is to be expected any more."""
        if self._is_batch and timestamp_ms < MAX_WATERMARK_MS:
            return
        for receiver in self._receivers:
            receiver.emit_watermark(timestamp_ms)

    def emit_status(self, is_idle: bool) -> None:
        """Nothing is to be awaited from this operator, or something is again."""
        for receiver in self._receivers:
            receiver.emit_status(is_idle)


def _discard(batch: Batch) -> None:
    """Results that no other operator wants."""


def _combined(emitters: list[Emit]) -> Emit:
    if not emitters:
        return _discard
    if len(emitters) == 1:
        return emitters[0]

    def emit(batch: Batch) -> None:
        for each in emitters:
            each(batch)

    return emit
