"""Scalar functions of arrays and maps, of which there are no constants; the others are in sql/payloads.py."""

from __future__ import annotations

from weir.algebra import schema
from weir.algebra.signatures import LIKE_ELEMENTS, PAYLOAD, Signature, Takes, always

PAYLOADS = (
    Signature("size", Takes((PAYLOAD,)), always(schema.INT), also=("cardinality",)),
    Signature("array_contains", Takes((PAYLOAD, LIKE_ELEMENTS)), always(schema.BOOLEAN)),
)
