"""Operators over sliding windows, and plans of them, executed in three ways (UPA, sections 2 and 5)."""
