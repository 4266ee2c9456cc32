"""After an outage between two nodes a job restarts a few times, not until TCP sends again.

The real cut is `make partitions SCENARIOS=link-long`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import pytest
from tidegate.protocol.channels import network_failure
from tidegate.protocol.channels.network_failure import without_connections

from ..simulation.mutants.base import Mutant

GAP_S = 5.0
"""After this time without a barrier, an attempt fails (`tidegate.network.gap-timeout`)."""
RESTART_S = 3.0
FIRST_REPEAT_S = 0.2
FIRST_DIAL_S = 1.0
MOST_AFTER_HEALING = 2
"""An attempt that began during the outage fails, and so may the next one: its connections are new, but were
dialed during the outage."""


@dataclass
class Process:
    """One task process, since a moment."""

    node: str
    born_s: float


@dataclass
class OutageWorld:
    """A job, an outage between two of its nodes, and what TCP does with connections that exist."""

    seed: int
    now_s: float = 100.0
    restarts_after: int = 0
    replaced: set[str] = field(default_factory=set)
    processes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        names = [f"node {number}" for number in range(self.random.choice((2, 2, 3, 5)))]
        for number in range(len(names) * self.random.choice((1, 2, 4))):
            self.processes[f"p{number}"] = Process(names[number % len(names)], 0.0)
        self.cut = set(names[:2])
        self.began_s = self.now_s
        self.healed_s = self.now_s + self.random.choice((10.0, 30.0, 60.0, 120.0))

    def silent_until_s(self, pair: tuple[str, str]) -> float:
        """When the connection between two processes carries something again."""
        one, other = (self.processes[key] for key in pair)
        if {one.node, other.node} != self.cut:
            return 0.0
        opened_s = max(one.born_s, other.born_s)
        if opened_s >= self.healed_s:
            return 0.0
        # A packet that was lost, or a connection that is being opened, is repeated at growing intervals.
        try_s, pause_s = max(opened_s, self.began_s), FIRST_DIAL_S
        if opened_s < self.began_s:
            pause_s = FIRST_REPEAT_S
        while try_s < self.healed_s:
            try_s, pause_s = try_s + pause_s, 2 * pause_s
        return try_s

    def run(self) -> None:
        """Attempt after attempt, until one takes a checkpoint: it needs a barrier on each connection."""
        for _ in range(1_000):
            late = [
                pair
                for pair in combinations(self.processes, 2)
                if self.silent_until_s(pair) > self.now_s + GAP_S
            ]
            if not late:
                return
            self.now_s += GAP_S
            self.restarts_after += self.now_s > self.healed_s
            self._fail(self.random.choice(self.random.choice(late)))
            self.now_s += RESTART_S
        raise AssertionError("the job never recovers")

    def _fail(self, reporter: str) -> None:
        nodes = {key: process.node for key, process in self.processes.items()}
        for key in network_failure.without_connections(reporter, nodes):
            self.replaced.add(key)
            self.processes[key].born_s = self.now_s

    def problems(self) -> list[str]:
        """What is wrong in the end."""
        found = []
        if self.restarts_after > MOST_AFTER_HEALING:
            found.append(f"seed {self.seed}: {self.restarts_after} restarts after the network was back")
        others = {key for key in self.replaced if self.processes[key].node not in self.cut}
        if others:
            found.append(f"seed {self.seed}: {others} were replaced, whose connections worked")
        return found


def outage(seed: int) -> list[str]:
    world = OutageWorld(seed)
    world.run()
    return world.problems()


def test_after_an_outage_a_job_restarts_at_most_twice_and_keeps_the_processes_of_other_nodes() -> None:
    assert [problem for seed in range(2_000) for problem in outage(seed)] == []


def _keeps_all(original: Any) -> Any:
    return lambda reporter, nodes: []


def _only_the_reporter(original: Any) -> Any:
    return lambda reporter, nodes: [reporter]


def _all(original: Any) -> Any:
    return lambda reporter, nodes: list(nodes)


def _the_other_nodes(original: Any) -> Any:
    def other(reporter: str, nodes: Mapping[str, str]) -> list[str]:
        return [key for key in nodes if key not in original(reporter, nodes)]

    return other


BUGS = [
    Mutant("no process ends", network_failure, "without_connections", _keeps_all),
    Mutant("only the process that reported ends", network_failure, "without_connections", _only_the_reporter),
    Mutant("all processes end", network_failure, "without_connections", _all),
    Mutant("those of the other nodes end", network_failure, "without_connections", _the_other_nodes),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.description)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        assert any(outage(seed) for seed in range(2_000)), f"{bug.description}: no seed finds it"


def test_a_failure_within_a_node_ends_one_process() -> None:
    assert without_connections("b", dict.fromkeys("abc", "node 1")) == ["b"]
