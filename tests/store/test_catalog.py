"""Definitions: said twice they do nothing, changed they are refused, and a count pins what there was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from obstore.store import MemoryStore

from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Column,
    Stream,
    Table,
    View,
    decimal,
)
from weir.errors import OpenError, StoreError, StreamError
from weir.store.catalog import CatalogLog, describe, identity, parse_type, path_of
from weir.store.files import Data, Files, ObjectFiles

COLUMNS = (Column("Name", STRING), Column("price", decimal(10, 2)), Column("ts", TIMESTAMP))
TRADE = Stream("Trade", COLUMNS, "ts", 3_600_000_000, 5_000_000, "spark")
EVER = Stream("ever", COLUMNS, "ts", None)
STOCK = Table("stock", (Column("symbol", STRING), Column("n", BIGINT)), ("symbol",))


@pytest.fixture
def files() -> Files:
    return ObjectFiles(MemoryStore())


def test_definitions_come_back_in_every_process(files: Files) -> None:
    log = CatalogLog(files)
    assert [log.define_stream(TRADE), log.define_table(STOCK), log.define_stream(EVER)] == [0, 1, 2]
    catalog = CatalogLog(files).read()
    assert catalog.streams == {"trade": TRADE, "ever": EVER}
    assert catalog.tables == {"stock": STOCK}
    assert catalog.relation("TRADE") == TRADE


def test_saying_the_same_again_does_nothing(files: Files) -> None:
    for _ in range(3):
        assert CatalogLog(files).define_stream(TRADE) == 0
        assert CatalogLog(files).define_table(STOCK) == 1
    assert CatalogLog(files).count() == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(TRADE, keep_us=None),
        replace(TRADE, columns=COLUMNS[1:]),
        replace(TRADE, name="TRADE"),
        replace(TRADE, future_us=1),
        Table("trade", COLUMNS, ("Name",)),
    ],
)
def test_a_definition_never_changes(files: Files, other: Stream | Table) -> None:
    log = CatalogLog(files)
    log.define_stream(TRADE)
    with pytest.raises(StreamError) as raised:
        log.define_stream(other) if isinstance(other, Stream) else log.define_table(other)
    assert describe(TRADE) in str(raised.value)
    assert describe(other) in str(raised.value)
    assert log.count() == 1


def test_a_count_pins_the_catalog(files: Files) -> None:
    log = CatalogLog(files)
    log.define_stream(TRADE)
    log.define_stream(EVER)
    assert set(log.read(0).streams) == set()
    assert set(log.read(1).streams) == {"trade"}
    assert set(CatalogLog(files).read(2).streams) == {"trade", "ever"}
    with pytest.raises(StoreError, match="catalog/000000000002 is missing"):
        log.read(3)


def test_two_processes_define_at_once(files: Files) -> None:
    class Slow:
        """Lets somebody else define a stream just before the first creation."""

        def __init__(self, rival: Stream) -> None:
            self.rival: Stream | None = rival

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
            if self.rival is not None:
                rival, self.rival = self.rival, None
                CatalogLog(files).define_stream(rival)
            return files.create(path, data, durable=durable)

    assert CatalogLog(Slow(TRADE)).define_stream(EVER) == 1  # type: ignore[arg-type]  # the rest is forwarded
    assert CatalogLog(Slow(EVER)).define_stream(EVER) == 1  # type: ignore[arg-type]  # the rest is forwarded
    assert CatalogLog(files).count() == 2


def test_threads_share_a_log(files: Files) -> None:
    log = CatalogLog(files)

    def define(n: int) -> int:
        return log.define_stream(replace(EVER, name=f"s{n % 10}"))

    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(define, range(40)))
    assert sorted(set(numbers)) == list(range(10))
    assert log.count() == CatalogLog(files).count() == 10
    assert log.read() == CatalogLog(files).read()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":1,"kind":"stream"}', b"\xff", b'{"format":9}'])
def test_a_damaged_document_is_refused_by_name(files: Files, data: bytes) -> None:
    files.create(path_of(0), data)
    with pytest.raises(StoreError, match="catalog/000000000000"):
        CatalogLog(files).read()


@pytest.mark.parametrize("type", [INT, BIGINT, DOUBLE, STRING, BOOLEAN, DATE, TIMESTAMP, decimal(18, 0), decimal(5, 5)])
def test_types_come_back(type: object) -> None:
    assert parse_type(str(type)) == type


# ── which weir this is ─────────────────────────────────────────────────────────────────────────────


def test_an_identity_is_made_once(files: Files) -> None:
    first = identity(files, "arrival")
    assert first.clock == "arrival"
    assert identity(files) == identity(files, "arrival") == first
    assert identity(ObjectFiles(MemoryStore())).clock == "event"
    assert identity(ObjectFiles(MemoryStore())).engine != first.engine


def test_another_clock_is_refused(files: Files) -> None:
    identity(files, "event")
    with pytest.raises(OpenError, match="runs on the event clock, not on 'arrival'; open it with clock='event'"):
        identity(files, "arrival")
    with pytest.raises(OpenError, match="clock 'sundial' is not one of event, arrival"):
        identity(files, "sundial")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format": 1}', b'{"format":7,"engine":"x","clock":"event"}'])
def test_a_damaged_identity_is_refused(files: Files, data: bytes) -> None:
    files.create("weir.json", data)
    with pytest.raises((OpenError, StoreError)):
        identity(files)


def test_two_processes_drop_views_at_once(files: Files) -> None:
    """Whoever comes second looks again; it waited for ever for a number that was taken."""

    class Slow:
        """Another process is quicker, once."""

        def __init__(self) -> None:
            self.is_quick = False

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
            if not self.is_quick:
                self.is_quick = True
                CatalogLog(files).drop_view("other")
            return files.create(path, data, durable=durable)

    for name in ("mine", "other"):
        CatalogLog(files).define_view(View(name, "SELECT 1"))
    CatalogLog(Slow()).drop_view("MINE")  # type: ignore[arg-type]  # the rest is forwarded
    assert CatalogLog(files).read().views == {}
    with pytest.raises(StreamError, match="there is no view 'mine'"):
        CatalogLog(files).drop_view("mine")
