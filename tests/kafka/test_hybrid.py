"""Files, then a real broker, as one job: examples/hybrid, killed while it reads the one and the other."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.serialization import SimpleStringSchema
from tidegate.datastream.connectors.hybrid_source import HybridSource
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

from ..datastream.jobs import environment
from ..forked import Forks
from .broker import Broker
from .test_sink import armed

EXAMPLE = Path(__file__).parents[2] / "examples" / "hybrid" / "backfill.py"
ORDERS = [
    {"number": number, "shop": f"shop-{number % 7}", "price": number / 4, "at": 1_000 * number}
    for number in range(300)
]


def expected() -> list[tuple[str, int, float]]:
    so_far: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    totals = []
    for order in ORDERS:
        shop = str(order["shop"])
        orders, total = so_far[shop]
        so_far[shop] = orders + 1, total + float(str(order["price"]))
        totals.append((shop, *so_far[shop]))
    return sorted(totals)


def run_example(
    forks: Forks, broker: Broker, topic: str, directory: Path, points: str, parallelism: int
) -> int:
    """Run the example, from the newest checkpoint that there is."""
    found = {int(path.parent.name[4:]): path.parent for path in directory.glob("chk/*/chk-*/MANIFEST")}
    settings = {
        "execution.target": "local",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(directory / "chk"),
        "tidegate.local-dir": str(directory / "local"),
        # Small batches, so that there are records between the checkpoints.
        "tidegate.batch.size": "5",
        **({"execution.state-recovery.path": str(found[max(found)])} if found else {}),
    }
    arguments = ["--bounded", "--brokers", broker.servers, "--topic", topic]
    arguments += ["--history", str(directory / "history"), "--output", str(directory / "out")]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    ended = forks(points, str(EXAMPLE), *arguments)
    assert ended in (0, -signal.SIGKILL)
    return ended


def test_the_example_killed_in_the_files_and_in_the_topic_counts_every_order_once_and_in_order(
    forks: Forks, broker: Broker, tmp_path: Path
) -> None:
    # One partition and one file: then the order within a shop is known, across the switch too.
    topic = broker.topic(1)
    (tmp_path / "history").mkdir()
    pq.write_table(pa.Table.from_pylist(ORDERS[:150]), tmp_path / "history" / "orders.parquet")
    broker.produce(topic, [json.dumps(order).encode() for order in ORDERS[150:]], 0)
    # A batch of five orders each: 30 of the files, then those of the topic.
    assert run_example(forks, broker, topic, tmp_path, "process@orders:15:kill", 2) == -signal.SIGKILL
    assert run_example(forks, broker, topic, tmp_path, "process@orders:35:kill", 1) == -signal.SIGKILL
    assert run_example(forks, broker, topic, tmp_path, "", 2) == 0
    rows = [
        json.loads(line)
        for path in (tmp_path / "out").glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    assert sorted((row["shop"], row["orders"], row["total"]) for row in rows) == expected()


def numbers_then(broker: Broker, topic: str) -> HybridSource:
    live = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic)
    live.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(SimpleStringSchema())
    first = HybridSource.builder(NumberSequenceSource(0, 59)).add_source(NumberSequenceSource(60, 119))
    return first.add_source(live.build()).build()


@pytest.mark.parametrize("failing", [2, 9, 14, 20, 26, 31])
def test_three_sources_in_a_row_with_a_failure_anywhere(broker: Broker, tmp_path: Path, failing: int) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.produce(topic, [b"%d" % (120 + 20 * partition + n) for n in range(20)], partition)
    env = environment(tmp_path, 2, {"tidegate.batch.size": "5"})
    source = numbers_then(broker, topic)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "all").uid("all").map(int)
    # There are at least 36 batches.
    with armed(f"process@all:{failing}:raise"), stream.execute_and_collect() as results:
        found = sorted(results)
    assert found == list(range(180))
