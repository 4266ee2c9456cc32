"""What a session runs: the systems, the workloads and how many records each is given."""

from __future__ import annotations

from dataclasses import dataclass

K_SMALL = 10_000
K_LARGE = 1_000_000
CHECKPOINT_INTERVAL_MS = 1_000
QUICK_SHARE = 0.2


@dataclass(frozen=True)
class Case:
    """One system on one workload.

    Attributes:
        workload: `W1`, `W2`, `W3` or `W5`.
        title: the group of cases whose figures are compared.
        system: the label in the table.
        program: `tidegate`, `bare`, `bytewax`, `pyflink` or `pathway`.
        records: records of the main suite, so that a run lasts about 5 to 10 s on two cores;
            for W5 the records that fill the state before the restart.
        keys: number of distinct keys K.
        backend: state backend, where the system has several.
        shell: `local` or `ray` (Tidegate only).
        parallelism: subtasks of each operator.
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

    @property
    def name(self) -> str:
        """A name for files."""
        words = f"{self.title} {self.system}"
        return "".join(c if c.isalnum() else "-" for c in words).strip("-")


@dataclass(frozen=True)
class Goal:
    """Ours must be at least (for W5 at most) `factor` times the peer in the same session."""

    title: str
    ours: str
    peer: str
    factor: float


MILLION = 1_000_000
LOCAL = "tidegate local"
RAY = "tidegate ray"
RAY_2 = "tidegate ray p=2"
RAY_LMDB = "tidegate ray lmdb"
LOCAL_LMDB = "tidegate local lmdb"
SMALL = "W2 K=10k"
LARGE = "W2 K=1M"

CASES = (
    Case("W1", "W1", "bare loop", "bare", 20 * MILLION),
    Case("W1", "W1", LOCAL, "tidegate", 20 * MILLION),
    Case("W1", "W1", RAY, "tidegate", 20 * MILLION, shell="ray"),
    Case("W1", "W1", "bytewax", "bytewax", 20 * MILLION),
    Case("W1", "W1", "pyflink", "pyflink", 1_000_000),
    Case("W2", SMALL, "bare loop", "bare", 6 * MILLION, K_SMALL),
    Case("W2", SMALL, LOCAL, "tidegate", 6 * MILLION, K_SMALL),
    Case("W2", SMALL, RAY, "tidegate", 6 * MILLION, K_SMALL, shell="ray"),
    Case("W2", SMALL, RAY_2, "tidegate", 6 * MILLION, K_SMALL, shell="ray", parallelism=2),
    Case("W2", SMALL, "bytewax", "bytewax", 2_000_000, K_SMALL),
    Case("W2", SMALL, "pyflink", "pyflink", 200_000, K_SMALL),
    Case("W2", SMALL, "pathway", "pathway", 1_000_000, K_SMALL),
    Case("W2", LARGE, "bare loop", "bare", 6 * MILLION, K_LARGE),
    Case("W2", LARGE, LOCAL, "tidegate", 6 * MILLION, K_LARGE),
    Case("W2", LARGE, RAY, "tidegate", 6 * MILLION, K_LARGE, shell="ray"),
    Case("W2", LARGE, RAY_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb", "ray"),
    Case("W2", LARGE, "bytewax", "bytewax", 600_000, K_LARGE),
    Case("W2", LARGE, "pyflink", "pyflink", 200_000, K_LARGE),
    Case("W2", LARGE, "pathway", "pathway", 1_000_000, K_LARGE),
    Case("W3", "W3", LOCAL_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb"),
    Case("W3", "W3", RAY_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb", "ray"),
    Case("W3", "W3", "bytewax", "bytewax", 200_000, K_LARGE),
    Case("W3", "W3", "pyflink hashmap", "pyflink", 200_000, K_LARGE),
    Case("W3", "W3", "pyflink rocksdb", "pyflink", 200_000, K_LARGE, "rocksdb"),
    Case("W3", "W3", "pathway", "pathway", 1_000_000, K_LARGE),
    Case("W5", "W5", LOCAL_LMDB, "tidegate", 2 * MILLION, K_LARGE, "lmdb"),
    Case("W5", "W5", RAY_LMDB, "tidegate", 2 * MILLION, K_LARGE, "lmdb", "ray"),
    # With a million keys Bytewax had not filled its store after five minutes.
    Case("W5", "W5", "bytewax, 200k keys", "bytewax", 250_000, 200_000),
    Case("W5", "W5", "pyflink hashmap", "pyflink", 1_050_000, K_LARGE),
    Case("W5", "W5", "pyflink rocksdb", "pyflink", 1_050_000, K_LARGE, "rocksdb"),
    Case("W5", "W5", "pathway", "pathway", 1_050_000, K_LARGE),
)

GOALS = (
    Goal("W1", LOCAL, "bytewax", 0.9),
    Goal("W1", RAY, "pyflink", 12.0),
    Goal(SMALL, RAY, "bytewax", 2.0),
    Goal(SMALL, RAY, "pyflink", 20.0),
    Goal(SMALL, RAY_2, "bytewax", 2.0),
    Goal(SMALL, RAY_2, "pyflink", 20.0),
    Goal(LARGE, RAY, "pathway", 4.0),
    Goal(LARGE, RAY_LMDB, "pathway", 2.0),
    Goal("W3", RAY_LMDB, "pathway", 2.0),
    Goal("W3", RAY_LMDB, "pyflink hashmap", 6.0),
    Goal("W3", RAY_LMDB, "bytewax", 12.0),
)


def select(suite: str, workloads: list[str], only: list[str]) -> list[Case]:
    """Picks the cases of a session.

    Args:
        suite: `main`, or `quick` for fewer records and neither W3 nor W5 on peers that need
            long to fill their state.
        workloads: names such as `W1`; empty means all.
        only: programs such as `tidegate`; empty means all.
    """
    cases = [c for c in CASES if not workloads or c.workload in workloads]
    cases = [c for c in cases if not only or c.program in only]
    if suite == "quick":
        cases = [c for c in cases if c.workload != "W5" or c.program == "tidegate"]
    return cases


def records_for(case: Case, suite: str) -> int:
    """Records of one run; W5 always fills the whole state."""
    if suite == "quick" and case.workload != "W5":
        return int(case.records * QUICK_SHARE)
    return case.records
