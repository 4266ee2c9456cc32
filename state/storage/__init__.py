"""Checkpoint storage: file systems, object stores and memory behind one interface."""
