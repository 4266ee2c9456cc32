"""Operators on Arrow batches."""
