"""Timers per key, in event time and in processing time."""
