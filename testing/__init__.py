"""The public test kit: the deterministic simulation of a whole job.

`simulate` runs the real task runtime, coordinator and state backends under a seeded scheduler with
virtual time; nothing here is imported by the runtime.
"""
