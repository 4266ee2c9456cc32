"""Benchmarks of files and PostgreSQL, each beside the bare library."""
