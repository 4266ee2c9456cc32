"""Benchmarks: our jobs and the same jobs on other engines, alternating in one session."""
