"""The contract of forms: a toy form that lives here runs from registration to recovery, and every form keeps it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir
from weir.algebra.nodes import Comparison, Expression, Query
from weir.algebra.schema import Catalog, Stream
from weir.errors import RegisterError
from weir.families import forms
from weir.families.contract import Checked, Encounter, Form, Needs, NewRows, Results, Seen
from weir.families.members import Group
from weir.families.query_parts import condition_of
from weir.families.recent import Recent
from weir.index.box_tables import OverBudget
from weir.settings import Settings
from weir.store.arrays import read_arrays
from weir.store.ledger import Ledger
from weir.testing.direct import DirectWeir
from weir.values.evaluate import evaluate

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
WALL_US = int(START.timestamp() * 1e6) + 10**9


class Remainders:
    """The toy form: `n % :k = :r` over one stream, kept as two arrays and matched by trying all of them."""

    name = "remainders"
    strategies = ("try all",)

    class Family:
        def __init__(self, stream: str) -> None:
            self.name = f"{stream}:remainders"
            self.channel = stream
            self.streams = (stream,)

    class Seen(Seen):
        sides = (0,)
        counts_as_family = False

        def __init__(self, stream: Stream) -> None:
            self.family = Remainders.Family(stream.name)
            self.streams = (stream,)

        def check(self, constants: pa.Table, settings: Settings) -> Checked:
            if not all(constants.column("c0").to_pylist()):
                raise RegisterError("nothing has a remainder when it is divided by 0")
            return Checked(1, ("n",), ())

        def describe(self, constants: Mapping[str, object] | None) -> dict[str, object]:
            return {"remainder": "one of all that are tried"}

    class Segment:
        needs = (Needs(),)
        reached = "a look at every one"

        def __init__(self, ids: np.ndarray, divisor: np.ndarray, rest: np.ndarray) -> None:
            self.ids, self.divisor, self.rest = ids, divisor, rest

        def arrays(self) -> dict[str, np.ndarray]:
            return {"ids": self.ids, "divisor": self.divisor, "rest": self.rest}

        def meta(self) -> dict[str, Any]:
            return {}

        def foreseen(self, recent: Recent) -> None:
            return None

        def match(self, asked: Encounter) -> Iterator[Results | OverBudget]:
            n = asked.events.table.column("n").to_numpy()
            hits = (n[:, None] % self.divisor == self.rest) & (asked.muted == 0)
            if hits.sum() > asked.left():
                yield OverBudget(hits.sum(axis=0))
                return
            offsets = np.concatenate([[0], np.cumsum(hits.sum(axis=1))])
            slots = np.nonzero(hits)[1].astype(np.int32)
            yield Results(None, offsets, slots, np.empty((0, len(slots)), np.int64), np.array([len(n)]))

    def refusal(self, core: Query, catalog: Catalog) -> str | None:
        condition = condition_of(core)
        is_one = isinstance(condition, Comparison) and getattr(condition.left, "op", "") == "%"
        return None if is_one and len(core.sources) == 1 else "it is no remainder"

    def see(self, core: Query, catalog: Catalog) -> Seen:
        return self.Seen(catalog.streams[core.sources[0].relation.lower()])

    def build(
        self,
        family: Family,
        groups: Sequence[Group],
        catalog: Catalog,
        settings: Settings,
        excluded: np.ndarray,
        recent: Recent | None = None,
    ) -> Segment:
        ids = np.concatenate([g.id_of_row() for g in groups])
        columns = [np.concatenate([g.constants.column(c).to_numpy() for g in groups]) for c in ("c0", "c1")]
        kept = ~np.isin(ids, excluded)
        return self.Segment(ids[kept], columns[0][kept], columns[1][kept])

    def open(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Segment:
        return self.Segment(arrays["ids"], arrays["divisor"], arrays["rest"])

    def columns_of_rows(self, family: Family, side: int, needs: Needs) -> list[Expression]:
        return []

    def build_rows(self, family: Family, side: int, rows: NewRows, needs: Needs) -> Any:
        raise AssertionError("there are no partners")

    def open_rows(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Any:
        raise AssertionError("there are no partners")


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"n": first + k, "ts": START + datetime.timedelta(seconds=first + k)} for k in range(count)]


def test_a_toy_form_runs_from_registration_to_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Form = Remainders()
    monkeypatch.setattr(forms, "FORMS", [toy, *forms.FORMS])
    w = weir.open(tmp_path)
    w.stream("s", "n bigint, ts timestamp", time="ts", keep="1 hour")
    direct = DirectWeir(w, wall_us=WALL_US)
    direct.batch({"s": rows(0, 10)})  # older than every query
    queries = w.register_many("SELECT n FROM s WHERE n % :k = :r", {"k": [2, 3, 7], "r": [0, 1, 5]})
    union = w.register("SELECT n FROM s WHERE n % 5 = 4 UNION ALL SELECT n FROM s WHERE n < 3")
    with pytest.raises(RegisterError, match="divided by 0"):
        w.register("SELECT n FROM s WHERE n % 0 = 1")
    assert w.queries()["family"].to_pylist() == ["remainders"] * 3 + ["remainders, selection"]
    assert "remainder: one of all that are tried" in queries[0].explain()
    direct.batch({"s": rows(10, 10)})
    queries[1].drop()
    expected = [[n for n in range(20) if n % k == r] for k, r in ((2, 0), (7, 5))]
    assert [queries[k].fetch()["n"].to_pylist() for k in (0, 2)] == expected
    # Another process finds the caches gone.
    shutil.rmtree(tmp_path / "cache")
    again = DirectWeir(weir.open(tmp_path), wall_us=WALL_US)
    done = again.batch({"s": rows(20, 15)})
    assert Ledger(again.weir.files).last_done() == done.batch == 2
    for k, (divisor, rest) in ((0, (2, 0)), (2, (7, 5))):
        assert queries[k].fetch()["n"].to_pylist() == [n for n in range(35) if n % divisor == rest]
    assert sorted(union.fetch()["n"].to_pylist()) == sorted([4, 9, 14, 19, 24, 29, 34, 0, 1, 2])
    assert again.jobs is not None
    assert again.jobs.choices["s:remainders"] == {"try all": 15}


# Every form of the engine: what it builds comes back from arrays as it was, and matches the same.

QUERIES = {
    "selection": "SELECT a FROM r WHERE a BETWEEN :lo AND :hi AND k <> 'x'",
    "join": "SELECT r.a, s.c FROM r JOIN s ON r.k = s.k WHERE r.a BETWEEN :lo AND :hi AND s.c > :lo",
    "many-join": "SELECT r.a FROM r JOIN s ON r.k = s.k JOIN q ON q.k = s.k "
    "WHERE r.a BETWEEN :lo AND :hi AND q.c > :lo",
}


@pytest.mark.parametrize("form", QUERIES)
def test_segments_come_back_from_arrays_as_they_were(form: str, tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("r", "k string, a int, ts timestamp", time="ts")
    w.stream("s", "k string, c int, ts timestamp", time="ts")
    w.stream("q", "k string, c int, ts timestamp", time="ts")
    low = list(range(20))
    w.register_many(QUERIES[form], {"lo": low, "hi": [n + 5 for n in low]})
    direct = DirectWeir(w, wall_us=WALL_US)
    stamp = {"ts": START}
    new = {
        "r": [{"k": "xyz"[n % 3], "a": n, **stamp} for n in range(20)],
        "s": [{"k": "xyz"[n % 3], "c": n, **stamp} for n in range(20)],
        "q": [{"k": "xyz"[n % 3], "c": n, **stamp} for n in range(0, 20, 4)],
    }
    direct.batch(new)
    prepared = direct.segments.prepare(1, np.empty(0, np.int64), w.catalog)
    (of,) = prepared.families
    assert of.form == form
    (taken,) = [f for f in forms.FORMS if f.name == form]
    segment = taken.open(*read_arrays(w.files, of.segments[0].path))
    again = taken.open(segment.arrays(), segment.meta())
    assert np.array_equal(segment.ids, again.ids)
    assert len(segment.needs) == len(of.family.streams) == len(of.needs)
    assert list(segment.arrays()) == list(again.arrays())
    assert (np.diff(segment.ids) > 0).all()
    # The results of the first batch, whole and over budget: counted by slot, each once.
    table = pa.Table.from_pylist(new["r"])
    events = NewRows(table, np.arange(len(table)), np.zeros(len(table), np.int64))
    partners = [direct_rows(taken, of, side, new[name], w.catalog) for side, name in enumerate(of.family.streams)]
    side = of.family.streams.index("r")
    muted = np.zeros(len(segment.ids), np.uint8)
    muted[3] = 1
    whole = list(again.match(Encounter(side, events, partners, muted, lambda: 10**9)))
    counts = np.zeros(len(segment.ids), np.int64)
    for found in whole:
        assert isinstance(found, Results)
        assert found.offsets[-1] == len(found.slots) == found.partners.shape[1]
        assert found.partners.shape[0] == len(of.family.streams) - 1
        counts += np.bincount(found.slots, minlength=len(counts))
    assert counts.sum() > 0
    assert counts[3] == 0
    over = list(again.match(Encounter(side, events, partners, muted, lambda: 0)))
    assert all(isinstance(found, OverBudget) for found in over)
    assert sum(found.counts for found in over if isinstance(found, OverBudget)).tolist() == counts.tolist()


def direct_rows(form: Form, of: Any, side: int, given: list[dict[str, Any]], catalog: Catalog) -> list[Any]:
    """The rows of one side as one row segment, back from its arrays."""
    if len(of.family.streams) == 1:
        return []
    table = pa.Table.from_pylist(given)
    rows = NewRows(table, np.arange(len(table)), np.zeros(len(table), np.int64))
    made = form.build_rows(of.family, side, rows, of.needs[side])
    names = form.columns_of_rows(of.family, side, of.needs[side])
    assert all(len(evaluate(e, table)) == len(table) for e in names)
    return [form.open_rows(made.arrays(), made.meta())]
