"""Operators on keyed streams."""
