"""Tables as sides of joins, where versions and windows meet in unusual ways."""

from __future__ import annotations

from pathlib import Path

import pytest

import weir
from tests.tables import SECOND, instant
from weir.answer import candidates, recompute
from weir.families.many import many_segments
from weir.testing.direct import DirectWeir

STREAM = "id int, k int, ts timestamp"


def opened(place: Path, **settings: int) -> DirectWeir:
    w = weir.open(place, settings=settings)
    for name in ("r", "s"):
        w.stream(name, STREAM, time="ts", keep="forever", future="forever")
    return DirectWeir(w, slices=1, wall_us=10**15, takes_pushes=True)


def row(id: int, second: int, k: int = 1) -> dict[str, object]:
    return {"id": id, "k": k, "ts": instant(second * SECOND)}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.id, u.n FROM r, u WHERE r.k = u.k BEGIN NOW + INTERVAL 5 SECONDS END NOW + INTERVAL 30 SECONDS",
        "SELECT r.id, u.n FROM r, u, s [BEGIN NOW - INTERVAL 5 SECONDS END NOW] WHERE r.k = u.k AND s.k = r.k "
        "BEGIN NOW - INTERVAL 5 SECONDS END NOW + INTERVAL 30 SECONDS",
    ],
)
@pytest.mark.parametrize("comes", ["before its rows", "after its rows", "before the query"])
def test_windows_after_tau_show_what_begins_after_tau(tmp_path: Path, text: str, comes: str) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("u", "k int, n int, since timestamp", key="k", time="since")
    query = None if comes == "before the query" else w.register(text)
    direct.batch({})
    changes = [{"k": 1, "n": 6, "since": instant(0)}, {"k": 1, "n": 7, "since": instant(18 * SECOND)}]
    if comes != "after its rows":
        w.upsert("u", changes)
    w.push("r", [row(1, 18), row(2, 17), row(3, 19)])
    w.push("s", [row(1, 8)])
    direct.batch({})
    if comes == "after its rows":
        w.upsert("u", changes)
        direct.batch({})
    if query is None:
        query = w.register(text)
        direct.batch({"s": [row(2, 100)]})
    found = query.fetch(at=instant(10 * SECOND)).to_pylist()
    assert sorted(tuple(one.values()) for one in found) == [(1, 7), (2, 6), (3, 7)]


@pytest.mark.parametrize("retroactive", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.id, u.n FROM r, u WHERE r.k = u.k BEGIN NOW - INTERVAL 20 SECONDS END NOW",
        "SELECT r.id, u.n FROM r, s, u WHERE r.k = u.k AND s.id = r.id BEGIN NOW - INTERVAL 20 SECONDS END NOW",
    ],
)
def test_rows_look_at_the_versions_of_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, retroactive: bool
) -> None:
    """A table whose rows change all the time: not every version is looked at beside every row."""
    count = 400
    looked_at: list[int] = []

    def counting(*args: object) -> object:
        found = candidates.candidates(*args)  # type: ignore[arg-type]  # handed on
        looked_at.append(found[0])
        return found

    monkeypatch.setattr(recompute, "candidates", counting)
    direct = opened(tmp_path)
    w = direct.weir
    w.table("u", "k int, n int, since timestamp", key="k", time="since", retroactive=retroactive)
    w.upsert("u", [{"k": 1, "n": n, "since": instant(n * SECOND)} for n in range(count)])
    rows = [row(n, n) for n in range(count)]
    direct.batch({"r": rows, "s": rows})
    query = w.register(text)
    direct.batch({"r": [row(count, count - 1)]})
    tau = count - 1
    shown = range(tau - 19, count)
    expected = [(n, tau if retroactive else n) for n in shown]
    if "s.id" not in text:
        expected.append((count, tau))
    for _ in range(2):
        assert sorted(tuple(one.values()) for one in query.fetch().to_pylist()) == sorted(expected)
    assert sum(looked_at) < 60 * count, "and not count * count"


def test_rows_of_joins_of_many_meet_the_versions_of_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions that ended before the rows of a batch came do not count against its limit."""
    monkeypatch.setattr(many_segments, "EXAMINED_MIN", 2_000)
    direct = opened(tmp_path, pairs_per_batch_max=400)
    w = direct.weir
    count = 200
    w.table("u", "k int, n int, since timestamp", key="k", time="since")
    w.table("v", "k int, n int, since timestamp", key="k", time="since", retroactive=True)
    changes = [{"k": 1, "n": n, "since": instant(n * SECOND)} for n in range(count)]
    for name in ("u", "v"):
        w.upsert(name, changes)
    text = "SELECT r.id, s.id AS s, t.n FROM r, s, {} t WHERE r.k = t.k AND s.id = r.id"
    queries = [w.register(text.format(name)) for name in ("u", "v")]
    both = [row(n, count - 5) for n in range(50)]
    direct.batch({"s": both})
    direct.batch({"r": both})
    assert not any(w.queries()["demoted"].to_pylist())
    for query in queries:
        assert [one["n"] for one in query.fetch().to_pylist()] == [count - 5] * 50


def test_rows_of_bands_meet_the_versions_of_their_times(tmp_path: Path) -> None:
    """Versions that ended before the rows of a batch came do not count against its budget."""
    direct = opened(tmp_path, pairs_per_batch_max=200)
    w = direct.weir
    count = 200
    w.table("u", "k int, n int, since timestamp", key="k", time="since")
    w.upsert("u", [{"k": 1, "n": n, "since": instant(n * SECOND)} for n in range(count)])
    query = w.register("SELECT r.id, u.n FROM r, u WHERE r.k = u.k AND r.id - u.n BETWEEN -1000 AND 1000")
    direct.batch({"s": [row(1, 1)]})
    direct.batch({"r": [row(n, count - 5) for n in range(50)]})
    assert "bounded differences" in query.explain()
    assert not any(w.queries()["demoted"].to_pylist())
    assert [one["n"] for one in query.fetch().to_pylist()] == [count - 5] * 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT e.id, e.n FROM e", (1, 6)),
        ("SELECT e.id, e.n, s.id AS s FROM e JOIN s ON s.k = e.k", (1, 6, 2)),
        ("SELECT e.id, e.n, f.id AS s, f.n AS m FROM e JOIN f ON f.k = e.k", (1, 6, 2, 7)),
        ("SELECT e.id, e.n, x.s FROM e JOIN (SELECT k, id + 0 AS s FROM s WHERE id > 1) x USING (k)", (1, 6, 2)),
        ("SELECT y.id, y.n, y.m FROM (SELECT e.id, e.n, f.n AS m FROM e JOIN f ON f.k = e.k) y", (1, 6, 7)),
        ("SELECT e.id, e.n, u.n AS m FROM e JOIN u ON u.k = e.k", (1, 6, 6)),
        ("SELECT r.id, u.n, s.id AS s FROM r JOIN u ON u.k = r.k JOIN s ON s.k = r.k", (1, 7, 2)),
        ("SELECT x.id, u.n, s.id AS s FROM (SELECT * FROM r) x JOIN u ON u.k = x.k JOIN s ON s.k = x.k", (1, 7, 2)),
    ],
)
def test_a_query_in_from_has_the_versions_of_its_own_rows(tmp_path: Path, text: str, expected: tuple[int, ...]) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("u", "k int, n int, since timestamp", key="k", time="since")
    w.view("e", "SELECT r.id, r.k, u.n FROM r JOIN u ON u.k = r.k")
    w.view("f", "SELECT s.id, s.k, u.n FROM s JOIN u ON u.k = s.k")
    w.upsert("u", [{"k": 1, "n": n, "since": instant(since * SECOND)} for n, since in ((6, 0), (7, 15))])
    query = w.register(text)
    direct.batch({"r": [row(1, 10)], "s": [row(2, 20)]})
    assert [tuple(one.values()) for one in query.fetch().to_pylist()] == [expected]


def test_the_nearest_row_of_a_table_is_one_that_held_at_the_rows_time(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("u", "id int, k int, n int, since timestamp", key="id", time="since")
    query = w.register("SELECT r.id, r.ts, u.n FROM r ASOF LEFT JOIN u ON r.k = u.k AND r.id >= u.n")
    since = {2: 0, 4: 20, 9: 0}
    w.upsert("u", [{"id": n, "k": 1, "n": n, "since": instant(s * SECOND)} for n, s in since.items()])
    w.push("r", [row(5, 18), row(5, 25), row(1, 25)])
    direct.batch({})
    found = [(one["id"], one["n"]) for one in query.fetch().to_pylist()]
    assert found == [(5, 2), (5, 4), (1, None)]
