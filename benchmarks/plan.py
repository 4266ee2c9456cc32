"""What a session runs: one system on one workload, with how many records."""

from __future__ import annotations

from dataclasses import dataclass

from .metrics import UNITS

K_SMALL = 10_000
K_LARGE = 1_000_000
CHECKPOINT_INTERVAL_MS = 1_000
QUICK_SHARE = 0.2
# W7's records of the first seconds are not counted.
WARMUP_S = 5
# The workloads with a checkpoint each second.
CHECKPOINTED = ("W3", "W5", "W7", "changing")


@dataclass(frozen=True)
class Case:
    """One system on one workload.

    Attributes:
        workload: `W1` to `W7`, `start` (a small job from its process's start), or `changing`
            (checkpoints of a state of which a part changes).
        title: the group of cases whose figures are compared.
        system: the label in the table.
        program: `tidegate`, `bare`, `numpy`, `bytewax`, `pyflink`, `pathway` or `spark`.
        records: records of the main suite, so that a run lasts about 5 to 10 s on two cores;
            for W5 the records that fill the state before the restart.
        keys: number of distinct keys K.
        backend: state backend, where the system has several.
        shell: `local`, `ray` (its own) or `running` (one that runs before the clock starts; Tidegate only).
        parallelism: subtasks of each operator.
        rate: records a second of a paced source; 0 for as fast as it goes.
        mode: which of its ways a system takes, such as `columns` or `process`.
        scales: a quick session takes a fifth of the records.
        note: what this system answers or does differently.
    """

    workload: str
    title: str
    system: str
    program: str
    records: int
    keys: int = 1
    backend: str = "hashmap"
    shell: str = "local"
    parallelism: int = 1
    rate: int = 0
    mode: str = ""
    scales: bool = True
    note: str = ""

    @property
    def name(self) -> str:
        """A name for files."""
        words = f"{self.title} {self.system}"
        return "".join(c if c.isalnum() else "-" for c in words).strip("-")

    @property
    def is_ours(self) -> bool:
        """Whether it is Tidegate's figure."""
        return self.program == "tidegate"

    @property
    def main_metric(self) -> str:
        """The figure that a row is about; see `metrics.UNITS`."""
        return {"W5": "seconds", "start": "seconds", "W7": "p50_ms", "changing": "checkpoint_ms"}.get(
            self.workload, "rate"
        )

    @property
    def unit(self) -> str:
        """The unit of that figure."""
        return UNITS[self.main_metric]

    @property
    def interval_ms(self) -> int:
        """Time between two checkpoints; 0 for none."""
        return CHECKPOINT_INTERVAL_MS if self.workload in CHECKPOINTED else 0


def select(cases: tuple[Case, ...], workloads: list[str], only: list[str]) -> list[Case]:
    """Picks the cases of a session.

    Args:
        cases: those of the suite.
        workloads: names such as `W1`, or titles; empty means all.
        only: programs such as `tidegate`; empty means all.
    """
    chosen = [c for c in cases if not workloads or c.workload in workloads or c.title in workloads]
    return [c for c in chosen if not only or c.program in only]


def keys_for(case: Case, share: float) -> int:
    """Keys of one run; a restart has fewer in a smaller session, as it has to fill its state first."""
    return max(int(case.keys * share), 1) if case.workload == "W5" else case.keys


def records_for(case: Case, share: float) -> int:
    """Records of one run of a session that takes only a share of them; some cases always take all."""
    if not case.scales:
        return case.records
    # W6 shuffles in blocks of 1,024 on both sides.
    return (
        max(int(case.records * share) // 2048, 1) * 2048
        if case.workload == "W6"
        else max(int(case.records * share), 1)
    )
