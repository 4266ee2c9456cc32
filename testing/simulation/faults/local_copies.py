"""The local disks of the machines that simulated tasks run on, and what happens to the copies there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....runtime.ports import TaskDeployment
from ..simulated_scheduler import SimulatedScheduler

_MACHINES = 2


class LocalCopies:
    """Places the tasks on machines, and loses or damages what is on their disks.

    Args:
        root: A directory, in which each machine has one.
        damage: How often a file is lost or damaged between two attempts.
    """

    def __init__(self, scheduler: SimulatedScheduler, root: str, damage: float) -> None:
        self._scheduler = scheduler
        self._root = Path(root)
        self._damage = damage

    def placed(self, deployment: TaskDeployment) -> TaskDeployment:
        """The deployment on the machine that its task was on before, or on another one."""
        number = deployment.subtask.subtask_id.index + self._scheduler.chance(0.3)
        machine = str(self._root / f"machine-{number % _MACHINES}")
        return replace(deployment, settings=replace(deployment.settings, local_snapshots_dir=machine))

    def suffer(self) -> None:
        """An attempt is over: some copies are not what they were."""
        if not self._damage:
            return
        for path in sorted(each for each in self._root.rglob("*") if each.is_file()):
            if not self._scheduler.chance(self._damage):
                continue
            content = path.read_bytes()
            what = self._scheduler.random.choice(("lost", "cut off", "changed"))
            if what == "lost" or not content:
                path.unlink()
            elif what == "cut off":
                path.write_bytes(content[: len(content) // 2])
            else:
                at = self._scheduler.random.randrange(len(content))
                path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
