"""Keyed state: the backend, its tables and the handles that user functions hold."""
