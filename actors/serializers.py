"""What Ray imports for its serializers, without what only other programs need."""

from __future__ import annotations

import sys

import ray

from ..common.import_blocking import blocked_imports

_COMPATIBILITY = "ray._common.pydantic_compat"


def make_serializers() -> None:
    """Have Ray make this process's serializers now, unless it has.

    It would import two versions of pydantic and Starlette where they are installed, to know the objects of a
    web application: 0.06 s of CPU time and 7 MiB in every process of a job. Ray Serve adds those serializers
    by itself, and a later `import pydantic` finds everything in its place.
    """
    was_imported = _COMPATIBILITY in sys.modules
    with blocked_imports("pydantic", "starlette"):
        # The public way to have them made that has no effect besides.
        ray.util.deregister_serializer(_Unknown)
    if not was_imported:
        # It believes that there is no pydantic: whoever wants it next is to look again.
        sys.modules.pop(_COMPATIBILITY, None)


class _Unknown:
    """A class that has no serializer."""
