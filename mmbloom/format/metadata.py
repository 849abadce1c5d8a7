"""The user's metadata: a JSON object of at most 2048 bytes in the header.

Encoding is canonical (compact, sorted keys, UTF-8 without escapes), so equal metadata gives equal
bytes. Decoding accepts any RFC 8259 object that encoding could write: no NaN, infinity or lone
surrogate.
"""

from __future__ import annotations

import json
from typing import Any

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fields import MAX_METADATA_BYTES

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_DEEP = "nested too deeply"
_OBJECT_HINT = "use str keys, and str, int, finite float, bool, None, list and dict as values"


def encode_metadata(metadata: dict[str, Any] | None) -> bytes:
    """Return the canonical bytes of *metadata*; None stands for the empty object.

    Raises:
        ParameterTypeError: *metadata* is not a dict.
        ParameterError: it would not read back equal (int keys, tuples, NaN), or needs more than
            2048 bytes.
    """
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, dict):
        raise ParameterTypeError(name="metadata", rule="a dict", found=metadata)
    try:
        encoded = _to_json(metadata)
        same = json.loads(encoded) == metadata
    except (TypeError, ValueError) as exc:
        raise _not_an_object(metadata, str(exc)) from exc
    except RecursionError as exc:
        kind = type(metadata).__name__  # its repr would recurse too
        raise _not_an_object(kind, _DEEP) from exc
    if not same:
        raise _not_an_object(metadata, _OBJECT_HINT)
    if len(encoded) > MAX_METADATA_BYTES:
        rule = f"at most {MAX_METADATA_BYTES} bytes as JSON"
        raise ParameterError(name="metadata", rule=rule, found=f"{len(encoded)} bytes")
    return encoded


def decode_metadata(encoded: bytes) -> dict[str, Any]:
    """Return the object in *encoded*; raise ValueError, with the reason, if it is not one."""
    if encoded == b"{}":  # most files have no metadata, and every opening decodes it
        return {}
    try:
        decoded = json.loads(encoded.decode("utf-8"))
        if not isinstance(decoded, dict):
            message = f"{type(decoded).__name__}, not an object"
            raise ValueError(message)  # noqa: TRY004 - the bytes are wrong, not the call
        _to_json(decoded)
    except RecursionError as exc:
        raise ValueError(_DEEP) from exc
    return decoded


def _not_an_object(metadata: object, hint: str) -> ParameterError:
    return ParameterError("metadata", "a JSON object that reads back equal", metadata, hint)


def _to_json(metadata: dict[str, Any]) -> bytes:
    return _ENCODER.encode(metadata).encode("utf-8")
