"""Savepoints as Spark DataFrames: read, written and edited."""
