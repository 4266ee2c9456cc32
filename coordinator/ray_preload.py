"""What a process of Ray may import before it is given a part of a job, so that no job waits for that.

A cluster asks for it with `RAY_preload_python_modules=tidegate.coordinator.ray_preload` where its nodes start
(docs/performance.md). Nothing but imports: such a process is like any other that Ray keeps ready.
"""

from __future__ import annotations

from ray._common import pydantic_compat

from ..actors import ray_task_runner
from ..state import keyed_backend, lmdb_store
from . import ray_job_host

__all__ = ["keyed_backend", "lmdb_store", "pydantic_compat", "ray_job_host", "ray_task_runner"]
