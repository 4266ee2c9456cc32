"""Codecs of state values: to bytes for LMDB, to Arrow columns for snapshots.

Three forms, chosen from the declared type:

* *packed*: fixed-width numbers and tuples of them; a leading tag byte 1 and then little-endian fields.
  A value that does not fit (None, an integer out of range) is encoded behind a tag byte 0.
* *typed*: every other known type: a typed Arrow column in snapshots, its plain form in LMDB.
* *pickled*: values of unknown type.

A value that is not exactly what its column can hold, but not of a wrong type either (an integer out of
range, a tuple in place of a list), is encoded by itself into a second column (see `encoded_values`), so that
what is read back equals what was stored. Only a scalar of a subclass, such as a NumPy integer, comes back as
the scalar it equals, and a moment in another time zone comes back in UTC or with a fixed offset. Values of
declared types are never pickled or unpickled, except for their parts of unknown type.
"""

from __future__ import annotations

from ...common.typeinfo import PickledBytesTypeInfo, TypeInformation, type_text
from .packed_codec import packed_codec
from .type_layouts import layout_of
from .value_codecs import PickledCodec, TypedCodec, ValueCodec
from .value_layouts import PickledLayout

__all__ = ["ValueCodec", "value_codec"]


def value_codec(type_info: TypeInformation | None) -> ValueCodec:
    """The codec of a declared type; None and unknown types are pickled."""
    type_info = type_info or PickledBytesTypeInfo()
    packed = packed_codec(type_info)
    if packed is not None:
        return packed
    layout = layout_of(type_info)
    if isinstance(layout, PickledLayout):
        return PickledCodec(type_text(type_info))
    return TypedCodec(type_info, layout)
