"""Tests, by folder as in src/weir. A package, because one of that name may be among the installed ones."""
