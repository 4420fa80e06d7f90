"""Texts that are nearly queries: words taken out, doubled, swapped, or put in."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_WORDS = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|[A-Za-z_][A-Za-z_0-9]*|[0-9]+(?:\.[0-9]+)?|<=>|[<>!=]=|<>|\|\||\S"
)
_TEXT = r"""
, , ( ) . ; * + - / % = < > <> != == <=> || & | ^ ~ ! @ # $ ? : :: [ ] { } -> => \ 1 2.5 1L 5Y 300Y 1.5S
.5 1e3 'a' r'b' "c" x'1F' N'd' `e` name price qty area trade weather t x SELECT DISTINCT ALL FROM WHERE
GROUP ORDER BY HAVING LIMIT OFFSET UNION EXCEPT INTERSECT JOIN INNER LEFT RIGHT FULL OUTER CROSS NATURAL
SEMI ANTI ON USING AS AND OR NOT IN LIKE ILIKE RLIKE ESCAPE BETWEEN IS NULL TRUE UNKNOWN EXISTS CASE
WHEN THEN ELSE END CAST INTERVAL DATE TIMESTAMP DAY SECONDS int string decimal FORMAT OVER FILTER WITHIN
IGNORE RESPECT NULLS FIRST LAST ASC DESC WITH VALUES LATERAL VALUE TABLE TOP QUALIFY WINDOW PARTITION
ROWS RANGE UNBOUNDED PRECEDING CURRENT ROW COLLATE DIV MOD XOR ROLLUP CUBE FINAL ONLY COUNT sum abs é
"""
_PUT_IN = _TEXT.split()


def mutated(text: str, rng: random.Random, others: Sequence[str]) -> str:
    """The text with one to three words changed; `others` lend words too."""
    words = _WORDS.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(words))
        way = rng.randrange(6)
        if way == 0 and len(words) > 1:
            del words[at]
        elif way == 1:
            words.insert(at, words[at])
        elif way == 2:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif way == 3:
            words[at] = rng.choice(_PUT_IN)
        elif way == 4:
            lent = _WORDS.findall(rng.choice(others))
            start = rng.randrange(len(lent))
            words[at:at] = lent[start : start + rng.choice((1, 2, 3))]
        else:
            words.insert(at, rng.choice(_PUT_IN))
    return " ".join(words)
