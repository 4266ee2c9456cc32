"""Spark stages, and savepoints as DataFrames."""
