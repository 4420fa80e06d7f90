"""Partner rows against plain Python: who meets whom, in which order, and strings in the codes of any dictionary."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.nodes import ColumnRef
from weir.algebra.schema import BIGINT, DOUBLE, INT, STRING, DataType
from weir.families.joins.join_family import JoinFamily
from weir.families.joins.partner_rows import PartnerRows
from weir.index.keys import NULL_KEY
from weir.index.meeting.partners import locate
from weir.index.strings import build, find
from weir.store.segment_files import map_arrays, write_arrays

WORDS = ["", "a", "ab", "b", "ö", "zz", "zzz", "Ω"]
TYPES = {"k": INT, "l": BIGINT, "s": STRING, "t": STRING, "v": DOUBLE, "name": STRING}
ARROW = {INT: pa.int32(), BIGINT: pa.int64(), STRING: pa.string(), DOUBLE: pa.float64()}


def table_of(rng: random.Random, count: int) -> pa.Table:
    def value(type_: DataType) -> object:
        if rng.random() < 0.15:
            return None
        if type_ is STRING:
            return rng.choice(WORDS)
        return float(rng.randint(-3, 3)) if type_ is DOUBLE else rng.randint(-3, 3)

    return pa.table({n: pa.array([value(t) for _ in range(count)], ARROW[t]) for n, t in TYPES.items()})


def column(name: str) -> ColumnRef:
    return ColumnRef(0, name, TYPES[name])


KEYS = [("k",), ("s",), ("k", "s"), ("s", "t"), ("k", "l", "s"), ("k", "l")]


@pytest.mark.parametrize("names", KEYS)
@pytest.mark.parametrize("seed", range(6))
def test_events_meet_exactly_the_rows_with_equal_keys(tmp_path: Path, names: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"{names} {seed}")
    count = (0, 1, 5, 40, 200, 200)[seed]
    rows, events = table_of(rng, count), table_of(rng, 60)
    family = JoinFamily(("r", "s"), tuple((column(n), column(n)) for n in names))
    accesses = [column("v"), column("name"), None]
    ids = np.arange(count, dtype=np.int64) + 1000
    made = PartnerRows.build(
        family, 1, rows, ids, ids * 7, accesses=accesses, columns=[column("t"), column("v"), column("name")]
    )
    write_arrays(tmp_path / "rows", made.arrays(), made.meta())
    made = PartnerRows.from_arrays(*map_arrays(tmp_path / "rows"))
    assert made.row_ids.tolist() == ids.tolist()
    assert made.times.tolist() == (ids * 7).tolist()
    codes = made.codes(events, [pair[0] for pair in family.keys])

    key_of_row = list(zip(*(rows[n].to_pylist() for n in names), strict=True))
    for access in accesses:
        partners = made.ordered(access)
        begin, end = locate(partners, codes)
        dictionary = build(pa.array(rng.sample(WORDS, 3))) if access is not None and access.name == "name" else None
        values = made.values(access, dictionary)
        for e, key in enumerate(zip(*(events[n].to_pylist() for n in names), strict=True)):
            places = range(int(begin[e]), int(end[e]))
            expected = [i for i, k in enumerate(key_of_row) if None not in key and k == key]
            assert sorted(partners.rows[p] for p in places) == expected, f"seed {seed}, event {e}, key {key}"
            run = values[begin[e] : end[e]]
            assert bool(np.all(run[1:] >= run[:-1])), "values ascend within a run"
            if access is not None:
                expected_values = made.column(access, dictionary)[partners.rows[begin[e] : end[e]]]
                assert run.tolist() == expected_values.tolist()


def test_strings_are_translated_to_the_codes_of_the_queries(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = table_of(rng, 100)
    family = JoinFamily(("r", "s"), ((column("k"), column("k")),))
    ids = np.arange(100, dtype=np.int64)
    made = PartnerRows.build(family, 0, rows, ids, ids, accesses=[None], columns=[column("name")])
    for mentioned in ([], ["ab"], ["", "b", "zz"], ["a", "aa", "zzzz"]):
        dictionary = build(pa.array(mentioned, pa.string()))
        expected = find(dictionary, rows["name"].combine_chunks())
        assert made.column(column("name"), dictionary).tolist() == expected.tolist()
    unmentioned = made.column(column("name"), None)
    nulls = np.array([v is None for v in rows["name"].to_pylist()])
    assert bool(np.all((unmentioned == NULL_KEY) == nulls))
