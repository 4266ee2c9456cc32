"""Formats of messages, by PyFlink's import paths."""
