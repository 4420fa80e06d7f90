"""What attacks on an early version showed, each once: damage that changed answers, or the next registration, silently.

Nothing but what every version has is used (`weir.open`, `stream`, `register`, `fetch`, and batches without Spark), so
that this file can be run against any of them. `test_damage` looks for what nobody has thought of.
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.errors import WeirError
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
WALL_US = int(START.timestamp() * 1e6) + 10**9
TEXTS = ("SELECT a FROM R WHERE a < 30", "SELECT b FROM R WHERE a > 60", "SELECT R.a, S.b FROM R JOIN S ON R.k = S.k")
ZEROS = 64


def rows(first: int) -> pa.Table:
    values = [(7 * n) % 100 for n in range(first, first + 100)]
    times = pa.array(
        [START + datetime.timedelta(seconds=n) for n in range(first, first + 100)], pa.timestamp("us", "UTC")
    )
    return pa.table({"k": [v % 20 for v in values], "a": values, "b": [v + 0.5 for v in values], "ts": times})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weir with three queries and three batches, of which caches know nothing yet."""
    folder = tmp_path_factory.mktemp("seen") / "weir"
    w = weir.open(folder)
    for name in ("R", "S"):
        w.stream(name, "k bigint, a bigint, b double, ts timestamp", time="ts", keep="1 hour")
    for text in TEXTS:
        w.register(text)
    direct = DirectWeir(w, wall_us=WALL_US)
    for batch in range(3):
        direct.batch({"R": rows(100 * batch), "S": rows(100 * batch)})
    shutil.rmtree(folder / "cache")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "weir")


def answers(folder: Path) -> list[pa.Table]:
    """What is told of a folder that nobody has looked at before."""
    w = weir.open(folder)
    return [w.query(id).fetch() for id in range(3)]


def newest(folder: Path, pattern: str) -> Path:
    return sorted(p for p in folder.glob(pattern) if p.is_file())[-1]


def changed(path: Path, at: int, new: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(new)] = new
    path.write_bytes(data)


def test_a_deleted_registration_shifts_no_ids(folder: Path) -> None:
    """A new query answered with the matches of the lost one."""
    newest(folder, "registry/*").unlink()
    with pytest.raises(WeirError, match="missing"):
        weir.open(folder).register("SELECT a FROM R WHERE a = 5")


def test_a_deleted_done_document_is_missed(folder: Path) -> None:
    """Answers were as of an older batch, without a word."""
    newest(folder, "ledger/*.done").unlink()
    with pytest.raises(WeirError, match="missing"):
        answers(folder)


def test_a_deleted_identity_is_missed(folder: Path) -> None:
    (folder / "weir.json").unlink()
    with pytest.raises(WeirError, match="missing"):
        weir.open(folder)


def test_a_deleted_definition_is_missed(folder: Path) -> None:
    """The stream could be defined with other types, and old queries answered with them."""
    newest(folder, "catalog/*").unlink()
    with pytest.raises(WeirError, match="missing"):
        weir.open(folder).stream("S", "k string, a string, b string, ts timestamp", time="ts", keep="1 hour")


def test_a_changed_digit_in_a_done_document_is_noticed(folder: Path) -> None:
    """It shortened answers."""
    path = newest(folder, "ledger/*.done")
    at = path.read_bytes().rindex(b'"row_counts"')
    digit = next(k for k in range(at, at + 60) if path.read_bytes()[k : k + 1] == b"3")
    changed(path, digit, b"2")
    with pytest.raises(WeirError, match="damaged|readable"):
        answers(folder)


def test_a_row_file_that_is_another_one_is_noticed(folder: Path) -> None:
    first, *_, last = sorted((folder / "rows").iterdir())
    shutil.copy(first, last)
    with pytest.raises(WeirError, match="damaged"):
        answers(folder)


@pytest.mark.parametrize("how", ["a bit", "zeros"])
def test_bits_of_a_match_file_are_looked_at(whole: Path, tmp_path: Path, how: str) -> None:
    """One flipped bit changed two answers, 64 zeroed bytes ten."""
    size = newest(whole, "matches/*").stat().st_size
    expected = answers(whole)
    silent = []
    for at in range(70, size, max(1, size // 8)):
        copy = shutil.copytree(whole, tmp_path / f"weir{at}")
        path = newest(copy, "matches/*")
        data = path.read_bytes()
        changed(path, at, bytes([data[at] ^ 4]) if how == "a bit" else bytes(min(ZEROS, size - at)))
        try:
            if answers(copy) != expected:
                silent.append(at)
        except WeirError:
            continue
    assert not silent, f"other answers after damage at {silent}"


READ = """
import sys, weir
for folder in sys.argv[1:]:
    try:
        weir.open(folder).query(0).fetch()
        print("answered", folder)
    except weir.errors.WeirError:
        print("refused")
"""


def test_a_damaged_registration_ends_no_process(whole: Path, tmp_path: Path) -> None:
    """Zeros aborted the process; a file that was cut gave an error of Arrow's."""
    copies = []
    size = newest(whole, "registry/*").stat().st_size
    for at in range(0, size, max(ZEROS, size // 16)):
        for how in ("zeros", "cut"):
            copy = shutil.copytree(whole, tmp_path / f"{how}{at}")
            path = newest(copy, "registry/*")
            before = path.read_bytes()
            path.write_bytes(before[:at])
            if how == "zeros":
                path.write_bytes(before[:at] + bytes(min(ZEROS, size - at)) + before[at + ZEROS :])
            if path.read_bytes() != before:
                copies.append(str(copy))
    done = subprocess.run([sys.executable, "-c", READ, *copies], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["refused"] * len(copies)


NAMES = ("x" * 121 + "1", "x" * 121 + "2")


def test_streams_with_long_names_stop_nobody(tmp_path: Path) -> None:
    """A join of two such streams was taken, and from then on every batch of every stream failed."""
    w = weir.open(tmp_path / "weir")
    for name in ("R", *NAMES):
        w.stream(name, "k bigint, a bigint, b double, ts timestamp", time="ts", keep="1 hour")
    query = w.register("SELECT a FROM R WHERE a < 30")
    w.register(f"SELECT l.a FROM {NAMES[0]} l JOIN {NAMES[1]} r ON l.k = r.k")
    direct = DirectWeir(w, wall_us=WALL_US)
    direct.batch({name: rows(0) for name in ("R", *NAMES)})
    assert query.fetch().num_rows == 30


def test_a_folder_is_its_owners(tmp_path: Path) -> None:
    """Everybody could read it."""
    before = os.umask(0o022)
    try:
        weir.open(tmp_path / "weir")
    finally:
        os.umask(before)
    assert (tmp_path / "weir").stat().st_mode & 0o077 == 0


WRONG: dict[str, Callable[[weir.Weir, weir.Query], object]] = {
    "fetch(at=date)": lambda w, q: q.fetch(at=datetime.date(2026, 3, 1)),  # type: ignore[arg-type]  # wrong on purpose
    "a parameter of 2**70": lambda w, q: w.register("SELECT a FROM R WHERE a > :x", {"x": 2**70}),
    "a push of sets": lambda w, q: w.push("R", {1, 2}),
    "parameters in a list": lambda w, q: w.register("SELECT a FROM R WHERE a > :x", [5]),  # type: ignore[arg-type]  # wrong
    "an id that is a text": lambda w, q: w.query("abc"),  # type: ignore[arg-type]  # wrong on purpose
    "a trigger that is none": lambda w, q: w.run(trigger="often"),
    "keys that are numbers": lambda w, q: w.register("SELECT a FROM R WHERE a > :x", {5: 5}),  # type: ignore[dict-item]  # wrong
    "a question mark": lambda w, q: w.register("SELECT a FROM R WHERE a > ?"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_type_is_an_error_of_ours(folder: Path, case: str) -> None:
    """They were AttributeErrors, OverflowErrors and TypeErrors."""
    w = weir.open(folder)
    with pytest.raises(WeirError):
        WRONG[case](w, w.query(0))
