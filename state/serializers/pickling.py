"""Pickles of values whose type is unknown, or that their typed column cannot hold."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

from ...common.errors import StateError


def dumps(value: Any) -> bytes:
    """Pickle a value, with cloudpickle where plain pickle cannot.

    Raises:
        StateError: when neither can.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    buffer = io.BytesIO()
    try:
        cloudpickle.CloudPickler(buffer, 5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StateError(
            f"a value of type {type(value).__name__} cannot be pickled ({error}); keep only data in "
            f"state, and open connections, locks and files in open()"
        ) from error
    return buffer.getvalue()
