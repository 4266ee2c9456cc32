"""Where two Arrow arrays of one type differ, row by row, nested types included."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def differing(old: pa.Array, new: pa.Array) -> Mask:
    """True where the values differ. Null equals null, and not-a-number equals itself."""
    kind = old.type
    old_null, new_null = _is_null(old), _is_null(new)
    differs: Mask
    if pa.types.is_null(kind):
        return np.zeros(len(old), dtype=bool)
    if pa.types.is_struct(kind):
        differs = np.zeros(len(old), dtype=bool)
        for one, other in zip(old.flatten(), new.flatten(), strict=True):
            differs |= differing(one, other)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        differs = _differing_lists(old, new)
    elif pa.types.is_map(kind):
        # The order of entries means nothing: as Python's dicts.
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        differs = np.array([_as_dict(one) != _as_dict(other) for one, other in pairs], dtype=bool)
    else:
        differs = _mask(pc.not_equal(old, new))
        if pa.types.is_floating(kind):
            differs &= ~(_mask(pc.is_nan(old)) & _mask(pc.is_nan(new)))
    result: Mask = (old_null != new_null) | (differs & ~old_null & ~new_null)
    return result


def _differing_lists(old: pa.Array, new: pa.Array) -> Mask:
    old_lengths, new_lengths = _lengths(old), _lengths(new)
    differs: Mask = old_lengths != new_lengths
    alike = np.flatnonzero(~differs)
    lengths = old_lengths[alike]
    elements = differing(old.take(pa.array(alike)).flatten(), new.take(pa.array(alike)).flatten())
    differs[np.repeat(alike, lengths)[elements]] = True
    return differs


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.list_value_length(array), 0).to_numpy(
        zero_copy_only=False
    )
    return lengths


def _is_null(array: pa.Array) -> Mask:
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _mask(array: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask


def _as_dict(entries: object) -> object:
    return dict(entries) if isinstance(entries, list) else entries
