"""Structures of the papers that only exhibits and tests use: importable and tested, not used by production."""
