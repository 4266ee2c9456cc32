"""The life of a user function in an operator: opened, asked at checkpoints, told of their end."""

from __future__ import annotations

from ..protocol.elements import CheckpointBarrier
from ..protocol.ids import CheckpointId
from .base import FrozenOperator, StreamOperator
from .checkpointed import CheckpointHooks
from .functions import Function, RichFunction
from .runtime_context import RuntimeContext


class UserFunctionOperator(StreamOperator):
    """Around one user function; subclasses say how it gets records."""

    _life_cycle: Function
    _hooks: CheckpointHooks
    _is_open = False

    def open(self) -> None:
        try:
            self._hooks.initialize(self.context, self.keyed)
        except Exception as error:
            raise self.user_error("initialize_state()", error) from error
        self._is_open = True
        try:
            context = RuntimeContext(self.context, self.keyed)
            if isinstance(self._life_cycle, RichFunction):
                self._life_cycle.set_runtime_context(context)
            self._life_cycle.open(context)
        except Exception as error:
            raise self.user_error("open()", error) from error

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        try:
            self._hooks.snapshot(barrier)
        except Exception as error:
            raise self.user_error("snapshot_state()", error) from error
        return super().snapshot_state(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        try:
            self._hooks.complete(checkpoint_id)
        except Exception as error:
            raise self.user_error("notify_checkpoint_complete()", error) from error

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        try:
            self._hooks.aborted(checkpoint_id)
        except Exception as error:
            raise self.user_error("notify_checkpoint_aborted()", error) from error

    def close(self) -> None:
        if not self._is_open:
            super().close()
            return
        self._is_open = False
        try:
            self.close_function()
        except Exception as error:
            raise self.user_error("close()", error) from error
        finally:
            super().close()

    def close_function(self) -> None:
        """End what the function still does, then close it; only after it was opened."""
        self._life_cycle.close()
