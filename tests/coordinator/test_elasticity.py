"""A coordinator asks for rescales by itself: it follows the cluster, the load, and leaves nodes that go."""

from __future__ import annotations

from tidegate.coordinator.elasticity import ASK_AGAIN_MS, Elasticity
from tidegate.protocol.ids import SubtaskId
from tidegate.protocol.scheduling.autoscaler import AutoscalerSettings
from tidegate.protocol.scheduling.plan import JobGraph
from tidegate.protocol.scheduling.reactive import ReactiveSettings
from tidegate.protocol.scheduling.rescaling import parallelism_of
from tidegate.protocol.task_metrics import ProcessMetrics, TaskMetrics

from .fakes import TOTALS, FakeCluster


class Room:
    """The cluster: so many slots, and what has to leave."""

    def __init__(self, slots: int | None = None) -> None:
        self.count = slots
        self.names: list[str] = []

    def slots(self, graph: JobGraph) -> int | None:
        return self.count

    def leaving(self) -> list[str]:
        return self.names


def reactive(cluster: FakeCluster, slots: int) -> tuple[Elasticity, Room]:
    room = Room(slots)
    settings = ReactiveSettings(cooldown_ms=30_000, stabilization_ms=5_000)
    return Elasticity(cluster.coordinator, room, settings, None, 1_000), room


def pass_ms(cluster: FakeCluster, elasticity: Elasticity, milliseconds: int) -> None:
    cluster.time_ms += milliseconds
    elasticity.tick()


def totals(cluster: FakeCluster) -> int:
    return parallelism_of(cluster.coordinator.graph)["totals"]


def test_in_reactive_mode_a_job_starts_as_it_fits() -> None:
    cluster = FakeCluster()
    reactive(cluster, slots=5)
    cluster.run()
    assert totals(cluster) == 5
    assert len(cluster.deployments[-1]) == 10, "the source is as wide: nothing limits it"


def test_it_follows_the_cluster_up_and_down() -> None:
    cluster = FakeCluster()
    elasticity, room = reactive(cluster, slots=2)
    cluster.run()
    room.count = 4
    pass_ms(cluster, elasticity, 1_000)
    pass_ms(cluster, elasticity, 4_999)
    assert cluster.coordinator.rescaling is None
    pass_ms(cluster, elasticity, 1)
    rescaling = cluster.coordinator.rescaling
    assert rescaling is not None
    assert (rescaling.cause, rescaling.to_parallelism["totals"]) == ("reactive", 4)
    assert cluster.ready is not None
    cluster.ready("no node came up")
    room.count = 1
    pass_ms(cluster, elasticity, ASK_AGAIN_MS - 1)
    assert cluster.coordinator.rescaling is None
    pass_ms(cluster, elasticity, 1)
    assert cluster.coordinator.rescaling is not None
    assert cluster.coordinator.rescaling.to_parallelism["totals"] == 1


def test_people_do_not_interfere_with_it() -> None:
    cluster = FakeCluster()
    reactive(cluster, slots=2)
    cluster.run()
    assert "scheduler-mode: reactive" in cluster.requests.rescale({"totals": 3})


def test_a_restart_takes_what_is_left() -> None:
    cluster = FakeCluster()
    _, room = reactive(cluster, slots=4)
    cluster.run()
    room.count = 3
    cluster.fail(TOTALS[0], "its node died")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert totals(cluster) == 3


def test_an_attempt_that_finds_no_places_any_more_is_given_up() -> None:
    cluster = FakeCluster()
    elasticity, room = reactive(cluster, slots=4)
    cluster.start()
    room.count = 2
    pass_ms(cluster, elasticity, 1_000)
    assert not cluster.stopped
    pass_ms(cluster, elasticity, 3_000)
    cluster.stop_tasks()
    assert totals(cluster) == 2
    cluster.initialized()
    assert cluster.coordinator.statistics.restarts == 1


def test_subtasks_leave_a_node_that_is_drained() -> None:
    cluster = FakeCluster()
    room = Room()
    elasticity = Elasticity(cluster.coordinator, room, None, None, 1_000)
    cluster.run()
    elasticity.tick()
    assert cluster.coordinator.rescaling is None
    room.names = ["Totals (2/2)"]
    elasticity.tick()
    assert cluster.ready is not None
    cluster.ready("")
    cluster.acknowledge()
    cluster.stop_tasks()
    cluster.initialized()
    cluster.pass_ms(0)
    (moved,) = cluster.coordinator.statistics.rescales
    assert (moved.cause, moved.failure) == ("drained node", "")
    assert moved.from_parallelism == moved.to_parallelism
    assert cluster.coordinator.statistics.restarts == 0


def test_without_another_place_it_stays_and_says_so() -> None:
    cluster = FakeCluster()
    room = Room()
    elasticity = Elasticity(cluster.coordinator, room, None, None, 1_000)
    cluster.run()
    cluster.refusal = "the cluster is full"
    room.names = ["Totals (2/2)"]
    elasticity.tick()
    elasticity.tick()
    assert list(cluster.coordinator.statistics.warnings) == [
        "no rescale (Totals (2/2) has to move): the cluster is full"
    ]


def test_busy_operators_get_more_subtasks() -> None:
    cluster = FakeCluster()
    aim = AutoscalerSettings(window_ms=10_000, stabilization_ms=2_000)
    elasticity = Elasticity(cluster.coordinator, Room(), None, aim, 1_000)
    cluster.run()
    for second in range(1, 5):
        busy = {subtask: TaskMetrics(busy_ms=1_000.0 * second) for subtask in TOTALS}
        idle = {SubtaskId("task-1", 0): TaskMetrics(idle_ms=500.0 * second, busy_ms=500.0 * second)}
        taken = ProcessMetrics(cluster.attempt, "node", 1, {**busy, **idle})
        cluster.coordinator.metrics.update(taken, cluster.time_ms)
        pass_ms(cluster, elasticity, 1_000)
    rescaling = cluster.coordinator.rescaling
    assert rescaling is not None
    assert rescaling.cause == "autoscaler"
    assert rescaling.to_parallelism == {"numbers": 1, "totals": 3}
