"""Keyed state in LMDB: one environment for each operator of a subtask."""
