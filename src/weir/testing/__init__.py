"""Tools for testing queries: the oracle, and how to compare bags of rows."""

from weir.testing.bags import differ
from weir.testing.oracle import answer

__all__ = ["answer", "differ"]
