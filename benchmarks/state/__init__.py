"""Benchmarks of keyed state alone, without a job around it."""
