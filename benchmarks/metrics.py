"""Figures by name: their units, and which way is better."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

UNITS = {
    "rate": "k/s",
    "seconds": "s",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "p999_ms": "ms",
    "checkpoint_ms": "ms",
    "sync_ms": "ms",
    "checkpoint_mb": "MB",
    "cpu_s": "s per million records",
    "memory_mib": "MiB",
    "ray_memory_mib": "MiB",
    "own_memory_mib": "MiB",
}

WORDS = {
    "rate": "throughput",
    "seconds": "time",
    "p50_ms": "latency p50",
    "p99_ms": "latency p99",
    "p999_ms": "latency p99.9",
    "checkpoint_ms": "checkpoint",
    "sync_ms": "its synchronous part",
    "checkpoint_mb": "its size",
    "cpu_s": "CPU time",
    "memory_mib": "peak memory",
    "ray_memory_mib": "Ray's own",
    "own_memory_mib": "memory without Ray's own",
}


def is_more_better(metric: str) -> bool:
    """True for rates; all else is better the less it is."""
    return metric == "rate"


def spread(values: Sequence[float]) -> float:
    """How far the lowest and the highest lie apart, as a share of the median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def times_better(metric: str, ours: float, other: float) -> float:
    """How many times ours is better than another, whichever way that is."""
    return ours / other if is_more_better(metric) else other / ours
