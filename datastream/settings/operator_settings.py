"""What can be set on the operator behind a stream or a sink."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from ...common.errors import ConfigurationError
from ...protocol.scheduling.plan import Chaining
from ..slot_sharing_group import SlotSharingGroup
from ..transformation import Transformation

if TYPE_CHECKING:
    from ..stream_execution_environment import StreamExecutionEnvironment

S = TypeVar("S", bound="OperatorSettings")

_UID_HASH = re.compile(r"[0-9A-Fa-f]{16}(-[0-9]+)?|[0-9A-Fa-f]{32}")


class OperatorSettings(ABC):
    """Name, uid, parallelism and place of one operator. Every setter returns the object it was called on."""

    _env: StreamExecutionEnvironment

    @property
    @abstractmethod
    def transformation(self) -> Transformation:
        """The operator; raises `ConfigurationError` where there is not exactly one."""

    def get_name(self) -> str:
        """Name of the operator."""
        return self.transformation.name

    def name(self: S, name: str) -> S:
        """Name the operator, for people."""
        self.transformation.name = name
        return self

    def uid(self: S, uid: str, previously: str | Sequence[str] = ()) -> S:
        """Give the operator an id under which its state is found again in checkpoints.

        Args:
            uid: Unique in the job.
            previously: Uids under which older checkpoints may hold the state, the latest first. They are
                looked for when a checkpoint without `uid` is restored.
        """
        previous = (previously,) if isinstance(previously, str) else tuple(previously)
        if not uid or not all(isinstance(old, str) and old for old in previous):
            raise ConfigurationError("a uid must not be empty")
        if uid in previous:
            raise ConfigurationError(f"the uid {uid!r} cannot be its own previous uid")
        self.transformation.uid = uid
        self.transformation.previous_uids = previous
        return self

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """Restore the operator's state also from what a checkpoint holds under this generated uid.

        Args:
            uid_hash: The uid that an operator without `uid()` had, as checkpoints and logs show it.
        """
        transformation = self.transformation
        if not isinstance(uid_hash, str) or _UID_HASH.fullmatch(uid_hash) is None:
            raise ConfigurationError(
                f"{transformation}: {uid_hash!r} is no generated uid, which has 16 or 32 hexadecimal digits; "
                f"for a uid of your own use uid(…, previously=…)"
            )
        transformation.previous_uids = (uid_hash, *transformation.previous_uids)
        return self

    def set_parallelism(self: S, parallelism: int) -> S:
        """Run the operator in so many subtasks."""
        transformation = self.transformation
        highest = transformation.highest_parallelism
        if highest is not None and parallelism > highest:
            raise ConfigurationError(
                f"operator {transformation.name!r} can only run with parallelism {highest}, not {parallelism}"
            )
        if parallelism < 1:
            raise ConfigurationError(f"the parallelism must be at least 1, got {parallelism}")
        transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self: S, max_parallelism: int) -> S:
        """Set the operator's number of key groups: the most subtasks it can ever have."""
        self.transformation.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self: S) -> S:
        """Run the operator in one subtask, for ever."""
        self.transformation.parallelism = 1
        self.transformation.highest_parallelism = 1
        return self

    def set_buffer_timeout(self: S, timeout_millis: int) -> S:
        """Longest time in milliseconds for which a record of the operator waits for its batch to fill.

        Args:
            timeout_millis: 0 sends at once, -1 waits until the batch is full.
        """
        if timeout_millis < -1:
            raise ConfigurationError(
                f"{self.transformation}: the buffer timeout is {timeout_millis} ms; give 0 or more, or -1 "
                f"to wait for full batches"
            )
        self.transformation.buffer_timeout_ms = timeout_millis
        return self

    def start_new_chain(self: S) -> S:
        """Put the operator at the head of a new task."""
        self.transformation.chaining = Chaining.HEAD
        return self

    def disable_chaining(self: S) -> S:
        """Give the operator a task of its own."""
        self.transformation.chaining = Chaining.NEVER
        return self

    def slot_sharing_group(self: S, slot_sharing_group: str | SlotSharingGroup) -> S:
        """Let the operator's subtasks share slots with those of its group only.

        Without this an operator is in the group that all its inputs share, else in `default`.

        Args:
            slot_sharing_group: The group's name, or the group with what its slots take.
        """
        transformation = self.transformation
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._env.register_slot_sharing_group(slot_sharing_group)
            slot_sharing_group = slot_sharing_group.get_name()
        if not isinstance(slot_sharing_group, str) or not slot_sharing_group:
            raise ConfigurationError(
                f"{transformation}: a slot sharing group is a SlotSharingGroup or its name, not "
                f"{slot_sharing_group!r}"
            )
        transformation.slot_sharing_group = slot_sharing_group
        return self

    def set_description(self: S, description: str) -> S:
        """Say more of the operator than its name does; the plan shows it."""
        self.transformation.description = description
        return self
