"""Operator state: lists, broadcast maps and tables of a subtask, in memory or on disk."""
