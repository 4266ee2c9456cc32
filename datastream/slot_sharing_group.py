"""Slot sharing groups and what their slots take (PyFlink's `pyflink.datastream.slot_sharing_group`)."""

from __future__ import annotations

import functools
from typing import Any

from ..common.errors import ConfigurationError
from ..protocol.scheduling.plan import SlotResources

__all__ = ["MemorySize", "SlotSharingGroup"]


@functools.total_ordering
class MemorySize:
    """A number of bytes, viewable in different units; units round down.

    Args:
        bytes_size: The number, not negative.
    """

    __slots__ = ("_bytes",)

    def __init__(self, bytes_size: int) -> None:
        if isinstance(bytes_size, bool) or not isinstance(bytes_size, int) or bytes_size < 0:
            raise ConfigurationError(f"a memory size is a number of bytes from 0 on, not {bytes_size!r}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """A number of MiB."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """In bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """In KiB (1,024 bytes)."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """In MiB (1,024 KiB)."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """In GiB (1,024 MiB)."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """In TiB (1,024 GiB)."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, MemorySize):
            return NotImplemented
        return self._bytes < other._bytes

    def __repr__(self) -> str:
        return f"MemorySize({self._bytes})"

    def __str__(self) -> str:
        return f"{self._bytes} bytes"


class SlotSharingGroup:
    """A name, and what every slot of the group takes. Made by `SlotSharingGroup.builder(name)`."""

    def __init__(
        self,
        name: str,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        self._name = name
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """A builder for the group of this name."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Name of the group."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """CPU cores of a slot."""
        return self._cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Heap memory of a slot."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Further memory of a slot."""
        return self._task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Memory of a slot for state."""
        return self._managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Further resources of a slot by name."""
        return dict(self._external_resources)

    def has_resources(self) -> bool:
        """Whether anything was said beyond the name."""
        return self._cpu_cores is not None

    def slot_resources(self) -> SlotResources:
        """What a slot takes, as the planner wants it: the kinds of memory are one in Python."""
        memory = (self._task_heap_memory, self._task_off_heap_memory, self._managed_memory)
        return SlotResources(
            self._cpu_cores,
            sum(size.get_bytes() for size in memory if size is not None),
            tuple(sorted(self._external_resources.items())),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and (self._name, self.slot_resources()) == (
            other._name,
            other.slot_resources(),
        )

    def __hash__(self) -> int:
        return hash((self._name, self.slot_resources()))

    class Builder:
        """Gathers what the slots of a group take."""

        def __init__(self, name: str) -> None:
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"a slot sharing group needs a non-empty name, got {name!r}")
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the CPU cores of a slot, more than 0."""
            if not cpu_cores > 0:
                raise ConfigurationError(self._refused("the CPU cores", cpu_cores))
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap memory of a slot, more than 0."""
            if task_heap_memory.get_bytes() == 0:
                raise ConfigurationError(self._refused("the heap memory", task_heap_memory))
            return self._with("task_heap_memory", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the heap memory of a slot in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set further memory of a slot. Python knows one kind of memory, so it is added up."""
            return self._with("task_off_heap_memory", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set further memory of a slot in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of a slot for state. Python knows one kind of memory, so it is added up."""
            return self._with("managed_memory", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of a slot for state in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set how much of a further resource a slot takes: `gpu`, or a resource of your Ray nodes."""
            if not name or not value > 0:
                raise ConfigurationError(self._refused(f"the resource {name!r}", value))
            self._external[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """The group.

            Raises:
                ConfigurationError: Something was said, but not both the CPU cores and the heap memory.
            """
            said = self._cpu_cores is not None or self._memory or self._external
            if said and (self._cpu_cores is None or "task_heap_memory" not in self._memory):
                raise ConfigurationError(
                    f"slot sharing group {self._name!r}: call both set_cpu_cores() and "
                    f"set_task_heap_memory_mb(), or set nothing but the name"
                )
            return SlotSharingGroup(
                self._name, self._cpu_cores, external_resources=self._external, **self._memory
            )

        def _with(self, name: str, size: MemorySize) -> SlotSharingGroup.Builder:
            self._memory[name] = size
            return self

        def _refused(self, what: str, value: object) -> str:
            return f"slot sharing group {self._name!r}: {what} must be more than 0, not {value}"
