"""Plans and done documents: they come back as they were, and anything else is refused with its name."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from weir.errors import StoreError
from weir.store.data_files import batch_of_path, data_path, said_of
from weir.store.documents import ROOT, create_document
from weir.store.files import ObjectFiles
from weir.store.ledger import (
    Done,
    Eviction,
    LateFile,
    Ledger,
    MatchFile,
    Plan,
    RowFile,
    done_path,
    last_number,
    plan_path,
)

PLAN = Plan(0, "engine", 3, 2, 10, None, {"s": None, "t": -5}, {"s": None, "t": -9}, {"f": 1}, "token")
DONE = Done(
    batch=0,
    plan_token="token",
    now_us=7,
    rows=(RowFile("s", "rows/a", 0, 2, -3, 7),),
    late=(LateFile("s", "late/a", 3, {"late": 2, "future": 1}),),
    matches=(MatchFile("matches/a", 0, 5, 2),),
    demoted=(4, 9),
    evictions=(Eviction("s", 1),),
    inbox_next=6,
    row_counts={"s": 2},
    wall_us=11,
    attempt="attempt",
)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(ObjectFiles(MemoryStore()))


def test_documents_come_back(ledger: Ledger) -> None:
    assert ledger.plan(0) is None
    assert ledger.done(0) is None
    assert ledger.create_plan(PLAN)
    assert ledger.create_done(DONE)
    assert ledger.plan(0) == PLAN
    assert ledger.done(0) == DONE
    assert DONE.paths == ("rows/a", "late/a", "matches/a")


names = st.text(max_size=8)
times = st.none() | st.integers(-(2**62), 2**62)
counts = st.integers(0, 2**62)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Plan,
        batch=counts,
        engine=names,
        registry=counts,
        catalog=counts,
        wall_us=counts,
        now_us=times,
        floors=st.dictionaries(names, times),
        read_floors=st.dictionaries(names, times),
        frontiers=st.dictionaries(names, counts),
        token=names,
    )
)
def test_any_plan_comes_back(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Done,
        batch=counts,
        plan_token=names,
        now_us=times,
        rows=st.lists(st.builds(RowFile, names, names, counts, counts, counts, counts), max_size=3).map(tuple),
        late=st.lists(st.builds(LateFile, names, names, counts, st.dictionaries(names, counts))).map(tuple),
        matches=st.lists(st.builds(MatchFile, names, counts, counts, counts), max_size=3).map(tuple),
        demoted=st.lists(counts).map(tuple),
        evictions=st.lists(st.builds(Eviction, names, counts), max_size=3).map(tuple),
        inbox_next=counts,
        row_counts=st.dictionaries(names, counts),
        wall_us=counts,
        attempt=names,
    )
)
def test_any_done_document_comes_back(done: Done) -> None:
    assert Done.from_json(done.to_json()) == done


def test_attempts_differ() -> None:
    fields = {name: getattr(DONE, name) for name in Done.__dataclass_fields__ if name != "attempt"}
    assert Done(**fields).attempt != Done(**fields).attempt


def test_of_two_documents_the_first_counts(ledger: Ledger) -> None:
    assert ledger.create_plan(PLAN)
    assert not ledger.create_plan(replace(PLAN, token="other"))
    assert ledger.create_done(DONE)
    assert not ledger.create_done(replace(DONE, attempt="other"))
    assert ledger.plan(0) == PLAN
    assert ledger.done(0) == DONE


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not readable"),
        (b"\xff\xfe", "not readable"),
        (b"[1]", "not readable"),
        (DONE.to_json()[:-20], "not readable"),
        (b"{}", "not readable"),
        (b'{"format": 5}', "has format 5, this version reads 4; it was written by another version"),
        (b'{"format": 4, "batch": 0}', "lacks a field"),
        (replace(DONE, batch=5).to_json(), "is the document of batch 5"),
        (json.dumps({**json.loads(DONE.to_json()), "rows": [[1, 2]]}).encode(), "lacks a field"),
    ],
)
def test_a_document_that_says_nothing_is_refused_by_name(ledger: Ledger, data: bytes, says: str) -> None:
    """Sealed as it is: somebody wrote it so."""
    create_document(ledger.files, done_path(0), ROOT, data)
    with pytest.raises(StoreError, match=says) as raised:
        ledger.done(0)
    assert "ledger/000000000000.done" in str(raised.value)


def test_a_damaged_plan_is_refused(ledger: Ledger) -> None:
    ledger.files.create(plan_path(3), b"\xff\xfe")
    with pytest.raises(StoreError, match=r"ledger/000000000003\.plan is damaged: .*restore it from a backup"):
        ledger.plan(3)


@pytest.mark.parametrize("last", [-1, 0, 1, 2, 3, 7, 8, 20, 33])
def test_the_last_number_is_found_from_any_number_before_it(last: int) -> None:
    for known in range(-1, last + 1):
        assert last_number(lambda n: n <= last, known) == last


def test_finding_the_last_number_takes_few_probes() -> None:
    probed: list[int] = []

    def exists(n: int) -> bool:
        probed.append(n)
        return n <= 1_000_000

    assert last_number(exists, -1) == 1_000_000
    assert len(probed) <= 42
    probed.clear()
    assert last_number(exists, 1_000_000) == 1_000_000
    assert probed == [1_000_001]


def test_the_last_done_batch(ledger: Ledger) -> None:
    assert ledger.last_done() == -1
    for batch in range(12):
        ledger.create_plan(replace(PLAN, batch=batch))
        ledger.create_done(replace(DONE, batch=batch))
        assert ledger.last_done() == ledger.last_done(hint=batch // 2) == batch


def test_file_names_carry_their_batch() -> None:
    path = data_path("rows", 42, b"content")
    assert path.startswith("rows/000000000042-")
    assert path.endswith(".arrow")
    assert path != data_path("rows", 42, b"content")
    assert batch_of_path(path) == 42
    assert said_of(path) == (7, zlib.crc32(b"content"))
    assert batch_of_path(data_path("matches", 7, b"", "csr")) == 7
    for stranger in ("rows/x.arrow", "rows/12-x", "rows/0000000000x2-y", "rows/٠٠٠٠٠٠٠٠٠٠٠٠-y", ""):
        assert batch_of_path(stranger) is None
