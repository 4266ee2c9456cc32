"""Connectors, by PyFlink's import path."""
