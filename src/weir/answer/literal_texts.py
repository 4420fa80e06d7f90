"""Constants of the registry as SQL."""

from __future__ import annotations

import datetime
from decimal import Decimal

from weir.algebra.schema import DataType, Kind

UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))


def literal_text(value: object, type: DataType) -> str:
    """A constant as SQL."""
    if value is None:
        return "NULL"
    if type.kind is Kind.STRING:
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type.kind is Kind.TIMESTAMP:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(str(value)))
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    if type.kind is Kind.DATE:
        return f"DATE '{value}'"
    if type.kind is Kind.INTERVAL:
        us = int(str(value))
        for unit, length in UNITS:
            if us and us % length == 0:
                return f"INTERVAL '{us // length}' {unit}"
        return f"INTERVAL '{us}' MICROSECOND"
    if isinstance(value, Decimal):
        return f"{value:f}"  # with an exponent it would be a double
    if type.kind is Kind.DOUBLE:
        text = repr(float(str(value)))
        return text if "e" in text or "n" in text else f"{text}E0"
    return str(value).upper() if type.kind is Kind.BOOLEAN else str(value)
