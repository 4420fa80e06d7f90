"""Patterns of LIKE."""

from __future__ import annotations


def like(text: str, pattern: str) -> bool:
    """SQL LIKE over the whole string: % any run, _ any one character, \\ takes the next one literally.

    Greedy with one way back, to the last %: at most |text| · |pattern| steps, whatever the pattern.
    """
    parts = _like_parts(pattern)
    at = place = 0
    back_place, back_at = -1, 0  # behind the last %, and where its run ends for now
    while at < len(text):
        part = parts[place] if place < len(parts) else None
        if part == (False, "%"):
            back_place, back_at = place + 1, at
            place += 1
        elif part == (False, "_") or (part is not None and part[0] and part[1] == text[at]):
            at += 1
            place += 1
        elif back_place >= 0:
            back_at += 1
            at, place = back_at, back_place
        else:
            return False
    return all(part == (False, "%") for part in parts[place:])


def _like_parts(pattern: str) -> list[tuple[bool, str]]:
    """(is it meant literally, character) for each character of a pattern."""
    parts: list[tuple[bool, str]] = []
    escaped = False
    for c in pattern:
        if escaped or c not in "%_\\":
            parts.append((True, c))
            escaped = False
        elif c == "\\":
            escaped = True
        else:
            parts.append((False, c))
    if escaped:
        parts.append((True, "\\"))
    return parts
