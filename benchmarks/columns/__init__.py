"""Benchmarks of columnar aggregation: one operator, and whole local jobs."""
