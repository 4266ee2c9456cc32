"""Keyed and operator state: descriptors, handles, codecs, backends, checkpoint storage.

Live state is plain Python objects in dicts; LMDB (in `lmdb*.py` only) stands behind them when state may
exceed memory; snapshots are Parquet segments in a `CheckpointStorage`. Nothing here knows tasks,
channels or barriers: a backend is told to freeze, and hands back what to persist on another thread.
Importing this package loads neither lmdb nor pyarrow.
"""
