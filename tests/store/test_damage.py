"""Damaged truth is an error, never an answer; damaged caches heal.

A weir of selections, joins, a table and a view, with kept answers, dropped queries, late rows, consumed, released and
waiting pushes is copied, and one file of the copy is damaged: a bit flips, it is cut, deleted, has 64 bytes zeroed, or
changes places with a sibling. Whatever is then asked of a weir that is opened anew gives what the undamaged one gives,
or a WeirError.
"""

from __future__ import annotations

import datetime
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from weir.cli import main
from weir.errors import StoreError, WeirError
from weir.store import registry as registry_module
from weir.store import state as state_module
from weir.store.core_runs import compact
from weir.store.data_files import forget_checks
from weir.store.documents import ROOT, sealed, unsealed
from weir.store.inbox import Inbox
from weir.testing import differ
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
WALL_US = int(START.timestamp() * 1e6) + 3_600_000_000
SEEDS = range(20)
# What is damaged, by pattern; and whether it is truth.
KINDS = {
    "weir.json": True,
    "catalog/*": True,
    "registry/*": True,
    "ledger/*.plan": True,
    "ledger/*.done": True,
    "ledger/folds/*": True,
    "rows/*": True,
    "rows/* of the table": True,
    "catalog/*[23]": True,  # of the table and of the view
    "matches/*": True,
    "kept/*": True,
    "late/*": True,
    "inbox/0*": True,
    "inbox/data/*": True,
    "inbox/released/*": True,
    "seals/**/*": False,
    "cache/folded/state-*": False,
    "cache/folded/registry-*": False,
    "cache/older/*": False,
    "cache/runs/**/*": False,
    "cache/segments/**/*": False,
    "cache/partners/**/*": False,
    "cache/partners/lifetimes/*": False,
}
SETTINGS = {"tail_queries_max": 4, "compact_every_batches": 2, "fold_every_batches": 2}
RANGES = {"lo": [0.0, 10.0, 20.0], "hi": [5.0, 30.0, 60.0]}
JOIN = "FROM trade t JOIN report r ON t.area = r.area"
NEW = "SELECT n, price FROM cheap WHERE price > 20"
OF_TABLE = (
    "SELECT t.n, p.owner FROM trade t JOIN place p ON t.area = p.area WHERE t.price < 30",
    "SELECT t.n, p.owner FROM trade t LEFT JOIN place p ON t.area = p.area AND p.rank > 2 WHERE t.price < 10",
    "SELECT area, owner FROM place WHERE rank > 0",
    "SELECT area, count(*) AS c, sum(price) AS s FROM cheap GROUP BY area",
)
KEPT = (  # by sums, as rows, and with a core that is common to all
    "SELECT area, count(*) AS c FROM trade WHERE price < 30 GROUP BY area",
    "SELECT n FROM trade WHERE price < 12 BEGIN NOW - INTERVAL 1 MINUTE END NOW",
    "SELECT t.n FROM trade t WHERE t.price < 40 AND NOT EXISTS (SELECT 1 FROM report r WHERE r.n = t.n)",
)
IDS = (
    *(0, 2, 3, 4, 5, 6, 7, 8, 9),
    *(10, 11, 12),
    14,
)  # of queries that stand; one of those that are kept has two cores


def trades(first: int, count: int, at_s: int) -> pa.Table:
    times = [START + datetime.timedelta(seconds=at_s + k) for k in range(count)]
    return pa.table(
        {
            "n": pa.array(range(first, first + count), pa.int64()),
            "price": pa.array([float((7 * n) % 50) for n in range(first, first + count)], pa.float64()),
            "area": pa.array([("north", "south", "west")[n % 3] for n in range(first, first + count)], pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def reports(first: int, count: int, at_s: int) -> pa.Table:
    return trades(first, count, at_s).drop_columns(["price"]).append_column("level", pa.array(range(count), pa.int32()))


def build(folder: Path) -> None:
    with mock.patch.object(state_module, "CACHE_EVERY", 2), mock.patch.object(registry_module, "CACHE_EVERY", 3):
        _build(folder)


def _build(folder: Path) -> None:
    w = weir.open(folder, settings=SETTINGS)
    w.stream("trade", "n bigint, price double, area string, ts timestamp", time="ts", keep="10 minutes")
    w.stream("report", "n bigint, area string, ts timestamp, level int", time="ts", keep="10 minutes")
    w.table("place", "area string, owner string, rank int", key="area")
    w.view("cheap", "SELECT n, price, area FROM trade WHERE price < 25")
    w.register("SELECT n, price FROM trade WHERE price < 20")
    w.register_many(
        "SELECT n FROM trade WHERE price BETWEEN :lo AND :hi", {"lo": [0.0, 10.0, 20.0], "hi": [5.0, 30.0, 60.0]}
    )
    w.register(f"SELECT t.n, r.level {JOIN} WHERE t.price < 30 AND r.level > 2")
    w.register(
        "SELECT t.n, r.n AS other FROM trade t JOIN report r ON t.area = r.area WHERE t.n - r.n BETWEEN -3 AND 3"
    )
    for text in OF_TABLE:
        w.register(text)
    for text in KEPT:
        w.register(text, kept=True)
    w.drop([1])
    direct = DirectWeir(w, wall_us=WALL_US, takes_pushes=True)
    for batch in range(5):
        first = 30 * batch
        old = trades(900 + batch, 2, -3_600) if batch > 1 else trades(0, 0, 0)  # too late to be taken
        rows = {
            "trade": pa.concat_tables([trades(first, 30, 40 * batch), old]),
            "report": reports(first, 8, 40 * batch),
        }
        change_table(w, batch)
        direct.batch(rows)
        w.vacuum()
        if batch == 2:
            assert w.register("SELECT DISTINCT area FROM trade WHERE price > 10").id == IDS[-1]
    for n in range(4):
        w.push("trade", trades(500 + n, 3, 250))
    consumed = direct.context.state.inbox_next
    assert consumed == 5, "the last ticket of a batch might be taken in part"
    for below in (2, consumed - 1):  # one is consumed and still there
        Inbox(w.files).release(below)
    for channel in sorted({channel for group in w.registry.groups() for channel in group.channels}):
        compact(w.files, direct.context.state, channel)
    w.vacuum()
    for id in (0, IDS[-1]):
        w.query(id).fetch()  # leaves caches of older rows behind


def change_table(w: weir.Weir, batch: int) -> None:
    w.upsert("place", {"area": ["north", f"new{batch}"], "owner": [f"n{batch}", "x"], "rank": [batch, 3]})
    if batch == 3:
        w.delete("place", ["west", "new1"])


def ask(folder: Path) -> list[tuple[str, Any]]:
    """Everything that a client and a driver do, step by step, as a new process; a step that fails ends it."""
    forget_checks()
    found: list[tuple[str, Any]] = []

    def step(name: str, do: Callable[[], Any]) -> Any:
        made = do()
        found.append((name, made))
        return made

    try:
        w = weir.open(folder, settings=SETTINGS)
        for id in IDS:
            step(f"fetch {id}", w.query(id).fetch)
        step("late", lambda: w.late("trade"))
        inbox = Inbox(w.files)
        number = inbox.released()
        while (ticket := inbox.ticket(number)) is not None:
            step(f"ticket {number}", lambda ticket=ticket: inbox.read(ticket))
            number += 1
        step("tickets", lambda: number)
        new = w.register(NEW)
        step("registered", lambda: new.id)
        step("fetch new", new.fetch)
        step("pushed", lambda: w.push("trade", trades(700, 1, 260)))
        step("changed", lambda: w.upsert("place", {"area": ["west"], "owner": ["w"], "rank": [9]}))
        direct = DirectWeir(w, wall_us=WALL_US, takes_pushes=True)
        direct.batch({"trade": trades(150, 20, 230), "report": reports(150, 5, 230)})
        for id in (*IDS, new.id):
            step(f"then fetch {id}", w.query(id).fetch)
    except WeirError as error:
        found.append(("error", error))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, Any]]]:
    folder = tmp_path_factory.mktemp("whole") / "weir"
    build(folder)
    copy = folder.with_name("asked")
    shutil.copytree(folder, copy)
    expected = ask(copy)
    assert "error" not in dict(expected), dict(expected)
    assert sum(table.num_rows > 0 for _, table in expected if isinstance(table, pa.Table)) > 20
    return folder, expected


def files_of(kind: str, folder: Path) -> list[Path]:
    """The files of a kind in a whole weir; not data that a newer batch has replaced, which nobody misses."""
    w = weir.open(folder)
    w.state.refresh(w.ledger)
    if kind.endswith(" of the table"):
        found = [folder / path for path in w.state.row_files(w.catalog.tables["place"].changes.name).paths]
    else:
        found = sorted(p for p in folder.glob(kind) if p.is_file())
        if kind.partition("/")[0] in ("rows", "matches", "kept", "late"):
            found = [path for path in found if path.relative_to(folder).as_posix() in w.state.named()]
    assert found, f"nothing is {kind}"
    return found


def damage(victim: Path, siblings: list[Path], how: str, rng: random.Random) -> None:
    data = bytearray(victim.read_bytes())
    at = rng.randrange(max(len(data), 1))
    if how == "delete":
        victim.unlink()
    elif how == "swap" and siblings:
        other = rng.choice(siblings)
        theirs = other.read_bytes()
        replace(other, bytes(data))
        replace(victim, theirs)
    elif how == "truncate":
        replace(victim, bytes(data[:at]))
    elif how == "zero":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
        replace(victim, bytes(data))
    else:
        data[at : at + 1] = bytes([data[at] ^ (1 << rng.randrange(8))]) if data else b""
        replace(victim, bytes(data))


def replace(path: Path, data: bytes) -> None:
    """A new file under the name: nobody's mapped pages change."""
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0, tested=1))
def test_damaged_truth_is_an_error_and_caches_heal(
    whole: tuple[Path, list[tuple[str, Any]]], tmp_path: Path, seed: int
) -> None:
    folder, expected = whole
    rng = random.Random(f"damage {seed}")
    outcomes: Counter[str] = Counter()
    for kind, is_truth in KINDS.items():
        paths = [path.relative_to(folder) for path in files_of(kind, folder)]
        for how in ("flip", "truncate", "delete", "zero", "swap"):
            copy = tmp_path / "weir"
            shutil.copytree(folder, copy)
            files = [copy / path for path in paths]
            victim = rng.choice(files)
            before = victim.read_bytes()
            damage(victim, [p for p in files if p != victim], how, rng)
            changed = not victim.exists() or victim.read_bytes() != before
            about = f"seed {seed}: {how} {victim.relative_to(copy)}"
            found = ask(copy)
            for (name, value), (wanted, right) in zip(found, expected, strict=False):
                if name == "error":
                    outcomes["error"] += 1
                    assert is_truth, f"{about}: a cache is not an error: {value}"
                    assert changed, f"{about}: {value}"
                    break
                assert name == wanted, about
                difference = differ(right, value) if isinstance(right, pa.Table) else right != value
                assert not difference, f"{about}: {name} gives another answer\n{difference}"
            else:
                assert len(found) == len(expected), about
                outcomes["right"] += 1
            shutil.rmtree(copy)
    print(f"seed {seed}: {outcomes}")
    assert outcomes["error"] > 25, outcomes
    assert outcomes["right"] > 20, outcomes


def test_a_check_names_the_damaged_file_and_a_backup_mends_it(
    whole: tuple[Path, list[tuple[str, Any]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = whole
    assert main(["check", str(folder)]) == 0
    assert "0 wrong" in capsys.readouterr().out
    rng = random.Random(5)
    for kind in [k for k, is_truth in KINDS.items() if is_truth]:
        for how in ("flip", "truncate", "delete"):
            copy = tmp_path / "weir"
            shutil.copytree(folder, copy)
            victim = copy / rng.choice(files_of(kind, folder)).relative_to(folder)
            damage(victim, [], how, rng)
            name = str(victim.relative_to(copy))
            assert main(["check", str(copy)]) == 1, f"{how} {name}"
            assert name in capsys.readouterr().out, f"{how} {name}"
            shutil.copy(folder / name, victim)
            assert main(["check", str(copy)]) == 0, f"{how} {name}: {capsys.readouterr().out}"
            capsys.readouterr()
            shutil.rmtree(copy)


def test_nothing_is_answered_from_a_folder_that_lost_what_it_is(
    whole: tuple[Path, list[tuple[str, Any]]], tmp_path: Path
) -> None:
    copy = tmp_path / "weir"
    shutil.copytree(whole[0], copy)
    (copy / "weir.json").unlink()
    shutil.rmtree(copy / "seals")
    with pytest.raises(WeirError, match="weir.json is missing .*, though there are batches"):
        weir.open(copy)
    assert not os.path.exists(copy / "weir.json")


@pytest.mark.parametrize("path", ["weir.json", "catalog/000000000000", "ledger/000000000000.plan"])
def test_no_bit_of_a_document_may_change(path: str) -> None:
    data = sealed(path, ROOT, b'{"a": [1, 2]}')
    assert unsealed(path, data).body == b'{"a": [1, 2]}'
    for at in range(len(data)):  # white space of the head, too
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with pytest.raises(StoreError):
                unsealed(path, flipped)
