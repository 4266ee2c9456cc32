"""Snapshots of keyed state: the segments that they consist of, and how they are read, compared and copied."""
