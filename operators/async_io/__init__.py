"""Async functions: records in flight while they wait for something outside."""
