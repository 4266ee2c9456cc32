"""All cases, workload by workload. A run takes some 5 to 15 s, so slow systems get fewer records."""

from __future__ import annotations

from .plan import K_LARGE, K_SMALL, WARMUP_S, Case

MILLION = 1_000_000
LOCAL = "tidegate local"
COLUMNS = "tidegate local columns"
RAY = "tidegate ray"
RAY_2 = "tidegate ray p=2"
RAY_LMDB = "tidegate ray lmdb"
LOCAL_LMDB = "tidegate local lmdb"
SMALL = "W2 K=10k"
LARGE = "W2 K=1M"
PER_COMMIT = "answers per commit, not per record"
PER_BATCH = "answers per micro-batch, not per record; no Python; on two cores"
IN_ONE_PROCESS = "both workers' Python shares one interpreter"
W4_KEYS = 1_000


def _spark(workload: str, title: str, records: int, keys: int, backend: str = "") -> Case:
    system = f"spark {backend or 'built-in'}"
    return Case(
        workload, title, system, "spark", records, keys, backend or "hashmap", parallelism=2, mode="builtin",
        note=PER_BATCH,
    )  # fmt: skip


STATELESS = (
    Case("W1", "W1", "bare loop", "bare", 20 * MILLION),
    Case("W1", "W1", LOCAL, "tidegate", 20 * MILLION),
    Case("W1", "W1", RAY, "tidegate", 20 * MILLION, shell="ray"),
    Case("W1", "W1", RAY_2, "tidegate", 20 * MILLION, shell="ray", parallelism=2),
    Case("W1", "W1", "bytewax", "bytewax", 20 * MILLION),
    Case("W1", "W1", "bytewax p=2", "bytewax", 20 * MILLION, parallelism=2),
    Case("W1", "W1", "pyflink", "pyflink", MILLION),
    Case("W1", "W1", "pyflink p=2", "pyflink", MILLION, parallelism=2, note=IN_ONE_PROCESS),
    Case("W1", "W1", "pyflink process", "pyflink", 500_000, mode="process"),
    Case("W1", "W1", "pathway", "pathway", MILLION),
    Case(
        "W1", "W1", "spark pandas", "spark", 20 * MILLION, mode="pandas", note="its functions are vectorised"
    ),
)

KEYED_SMALL = (
    Case("W2", SMALL, "bare loop", "bare", 6 * MILLION, K_SMALL),
    Case("W2", SMALL, "bare numpy", "numpy", 60 * MILLION, K_SMALL, mode="columns"),
    Case("W2", SMALL, LOCAL, "tidegate", 6 * MILLION, K_SMALL),
    Case("W2", SMALL, COLUMNS, "tidegate", 60 * MILLION, K_SMALL, mode="columns"),
    Case("W2", SMALL, RAY, "tidegate", 6 * MILLION, K_SMALL, shell="ray"),
    Case("W2", SMALL, RAY_2, "tidegate", 6 * MILLION, K_SMALL, shell="ray", parallelism=2),
    Case("W2", SMALL, "bytewax", "bytewax", 2 * MILLION, K_SMALL),
    Case("W2", SMALL, "bytewax p=2", "bytewax", 2 * MILLION, K_SMALL, parallelism=2),
    Case("W2", SMALL, "pyflink", "pyflink", 200_000, K_SMALL),
    Case("W2", SMALL, "pyflink p=2", "pyflink", 200_000, K_SMALL, parallelism=2, note=IN_ONE_PROCESS),
    Case("W2", SMALL, "pyflink process", "pyflink", 20_000, K_SMALL, mode="process"),
    Case("W2", SMALL, "pathway", "pathway", MILLION, K_SMALL, note=PER_COMMIT),
    _spark("W2", SMALL, 4 * MILLION, K_SMALL),
    Case("W2", SMALL, "spark pandas state", "spark", 20_000, K_SMALL, mode="state"),
    Case("W2", SMALL, "spark transformWithState", "spark", 20_000, K_SMALL, mode="transform"),
)

KEYED_LARGE = (
    Case("W2", LARGE, "bare loop", "bare", 6 * MILLION, K_LARGE),
    Case("W2", LARGE, LOCAL, "tidegate", 6 * MILLION, K_LARGE),
    Case("W2", LARGE, RAY, "tidegate", 6 * MILLION, K_LARGE, shell="ray"),
    Case("W2", LARGE, RAY_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb", "ray"),
    Case("W2", LARGE, "bytewax", "bytewax", MILLION, K_LARGE),
    Case("W2", LARGE, "bytewax p=2", "bytewax", MILLION, K_LARGE, parallelism=2),
    Case("W2", LARGE, "pyflink", "pyflink", 200_000, K_LARGE),
    Case("W2", LARGE, "pyflink rocksdb", "pyflink", 200_000, K_LARGE, "rocksdb"),
    Case("W2", LARGE, "pathway", "pathway", MILLION, K_LARGE, note=PER_COMMIT),
    _spark("W2", LARGE, 600_000, K_LARGE),
)

CHECKPOINTS = (
    Case("W3", "W3", "tidegate local", "tidegate", 4 * MILLION, K_LARGE),
    Case("W3", "W3", RAY, "tidegate", 4 * MILLION, K_LARGE, shell="ray"),
    Case("W3", "W3", LOCAL_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb"),
    Case("W3", "W3", RAY_LMDB, "tidegate", 4 * MILLION, K_LARGE, "lmdb", "ray"),
    Case("W3", "W3", "bytewax", "bytewax", 600_000, K_LARGE),
    Case("W3", "W3", "pyflink hashmap", "pyflink", 200_000, K_LARGE),
    Case("W3", "W3", "pyflink rocksdb", "pyflink", 200_000, K_LARGE, "rocksdb"),
    Case("W3", "W3", "pathway", "pathway", MILLION, K_LARGE, note=f"{PER_COMMIT}; stores its input"),
    _spark("W3", "W3", 600_000, K_LARGE, "rocksdb"),
)

WINDOWS = (
    Case("W4", "W4", "bare loop", "bare", 4 * MILLION, W4_KEYS),
    Case("W4", "W4", "bare numpy", "numpy", 40 * MILLION, W4_KEYS, mode="columns"),
    Case("W4", "W4", LOCAL, "tidegate", 3 * MILLION, W4_KEYS),
    Case("W4", "W4", COLUMNS, "tidegate", 40 * MILLION, W4_KEYS, mode="columns"),
    Case("W4", "W4", RAY, "tidegate", 3 * MILLION, W4_KEYS, shell="ray"),
    Case("W4", "W4", RAY_2, "tidegate", 3 * MILLION, W4_KEYS, shell="ray", parallelism=2),
    Case("W4", "W4", "tidegate local p=4", "tidegate", 3 * MILLION, W4_KEYS, parallelism=4),
    Case("W4", "W4", "bytewax", "bytewax", MILLION, W4_KEYS),
    Case("W4", "W4", "bytewax p=2", "bytewax", MILLION, W4_KEYS, parallelism=2),
    Case(
        "W4", "W4", "bytewax p=2, told to wait", "bytewax", MILLION, W4_KEYS, parallelism=2, mode="wait"
    ),
    Case("W4", "W4", "pyflink", "pyflink", 200_000, W4_KEYS),
    _spark("W4", "W4", 4 * MILLION, W4_KEYS),
)  # fmt: skip

JOIN = (
    Case("W6", "W6", "bare loop", "bare", 6_144_000),
    Case("W6", "W6", LOCAL, "tidegate", 4_096_000),
    Case("W6", "W6", RAY, "tidegate", 4_096_000, shell="ray"),
    Case("W6", "W6", RAY_2, "tidegate", 4_096_000, shell="ray", parallelism=2),
    Case("W6", "W6", "bytewax", "bytewax", 1_024_000),
    Case("W6", "W6", "pyflink", "pyflink", 204_800),
    Case("W6", "W6", "pathway", "pathway", 1_024_000, note=f"{PER_COMMIT}; keeps both sides for ever"),
)

RESTART = (
    Case("W5", "W5", LOCAL_LMDB, "tidegate", 2 * MILLION, K_LARGE, "lmdb"),
    Case("W5", "W5", RAY_LMDB, "tidegate", 2 * MILLION, K_LARGE, "lmdb", "ray"),
    Case("W5", "W5", "tidegate running ray lmdb", "tidegate", 2 * MILLION, K_LARGE, "lmdb", "running"),
    # With a million keys Bytewax had not filled its store after five minutes.
    Case("W5", "W5", "bytewax, 200k keys", "bytewax", 250_000, 200_000),
    Case("W5", "W5", "pyflink hashmap", "pyflink", 1_050_000, K_LARGE),
    Case("W5", "W5", "pyflink rocksdb", "pyflink", 1_050_000, K_LARGE, "rocksdb"),
    Case("W5", "W5", "pathway", "pathway", 1_050_000, K_LARGE),
)


def _latency(system: str, program: str, rate: int, shell: str = "local", seconds: int = 30) -> Case:
    title = f"W7 {rate // 1000}k/s"
    records = (seconds + WARMUP_S) * rate
    return Case("W7", title, system, program, records, K_SMALL, shell=shell, rate=rate)


LATENCY = (
    *(_latency(RAY, "tidegate", rate, "ray") for rate in (1_000, 10_000, 50_000, 100_000, 200_000)),
    *(_latency(LOCAL, "tidegate", rate) for rate in (10_000, 50_000, 100_000)),
    *(_latency("bytewax", "bytewax", rate) for rate in (10_000, 50_000, 100_000)),
    # The last is more than it can do.
    *(_latency("pyflink", "pyflink", rate) for rate in (10_000, 50_000)),
)

SHUFFLE = (
    *(
        Case("W2", "W8", f"tidegate ray p={p}", "tidegate", 4 * MILLION, K_SMALL, shell="ray", parallelism=p)
        for p in (1, 2, 4, 8, 32)
    ),
    *(
        Case("W2", "W8", f"tidegate local p={p}", "tidegate", 4 * MILLION, K_SMALL, parallelism=p)
        for p in (1, 2, 4, 8, 32)
    ),
    *(Case("W2", "W8", f"bytewax p={p}", "bytewax", MILLION, K_SMALL, parallelism=p) for p in (1, 2, 8)),
    Case("W2", "W8", "pyflink p=8", "pyflink", 200_000, K_SMALL, parallelism=8),
)

# What `tidegate.slot.share-process` changes.
SLOTS = tuple(
    Case("W2", "W8 slots", f"p={p}, a process per {mode or 'subtask'}", "tidegate", 4 * MILLION, K_SMALL,
         shell="ray", parallelism=p, mode=mode)
    for p in (1, 2, 4, 8, 32)
    for mode in ("", "slot")
)  # fmt: skip

GROWTH = (
    # Of ten million keys a fifth comes twice, so that the case in LMDB ends within its time limit.
    *(
        Case("W2", f"W9 keys {backend}", f"{keys:,} keys", "tidegate", max(4 * MILLION, 6 * keys // 5), keys,
             backend)
        for backend in ("hashmap", "lmdb")
        for keys in (10_000, 100_000, MILLION, 10 * MILLION)
    ),
    # Source and keyed operator: two subtasks for each of parallelism.
    *(
        Case("W2", f"W9 subtasks {shell}", f"{2 * p} subtasks", "tidegate", 2 * MILLION, K_SMALL, shell=shell,
             parallelism=p)
        for shell in ("local", "ray")
        for p in (1, 2, 4, 8, 16, 32)
    ),
    *(
        Case("changing", f"W9 checkpoints {backend}", f"{share} % changed", "tidegate", 20 * 2000 * share,
             200_000, backend, rate=2000 * share, mode=str(share), scales=False)
        for backend in ("hashmap", "lmdb")
        for share in (1, 10, 30, 100)
    ),
)  # fmt: skip

START = (
    Case("start", "start", LOCAL, "tidegate", 1_000, 100, scales=False),
    Case("start", "start", RAY, "tidegate", 1_000, 100, shell="ray", scales=False),
    Case("start", "start", "tidegate running ray", "tidegate", 1_000, 100, shell="running", scales=False),
    Case("start", "start", "bytewax", "bytewax", 1_000, 100, scales=False),
    Case("start", "start", "pyflink", "pyflink", 1_000, 100, scales=False),
    Case("start", "start", "pathway", "pathway", 1_000, 100, scales=False),
    Case("start", "start", "spark built-in", "spark", 1_000, 100, mode="builtin", scales=False),
)
