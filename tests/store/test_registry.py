"""Registrations and drops: numbers order them, ids are never reused, and every reader counts the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from weir.algebra.schema import BIGINT, DOUBLE, STRING, DataType, decimal
from weir.errors import QueryError, StoreError
from weir.store import registry as registry_module
from weir.store.arrow import to_ipc
from weir.store.documents import ROOT, create_document
from weir.store.files import Files, LocalFiles, ObjectFiles
from weir.store.query_groups import Draft, GroupRef, NewQueries
from weir.store.registry import Registry, path_of

TYPES = (DOUBLE, decimal(10, 2), STRING)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return ObjectFiles(MemoryStore(), cache=tmp_path)


def add(registry: Registry, count: int = 1, shape: str = "shape", types: tuple[DataType, ...] = (BIGINT,)) -> GroupRef:
    table = pa.table({f"c{i}": pa.array(range(count)) for i in range(len(types))})
    return registry.register(NewQueries(shape, types, table, ["selection"], ["trade"], 4))


def test_a_group_comes_back(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    constants = pa.table({"c0": [1.5, None], "c1": pa.array([1, 2], pa.decimal128(10, 2)), "c2": ["a", "ü"]})
    group = Registry(files).register(NewQueries("SELECT … :c0", TYPES, constants, ["selection"], ["trade"], 3))
    assert group == GroupRef(0, 0, 2, "SELECT … :c0", TYPES, ("selection",), ("trade",), 3)
    other = Registry(files)
    other.refresh()
    assert other.groups() == (group,)
    assert other.constants(group).equals(constants)
    assert (other.count, other.queries) == (1, 2)


def test_ids_go_on_after_drops(files: Files) -> None:
    registry = Registry(files)
    assert add(registry, 3).first_id == 0
    assert registry.drop(np.array([2, 1])) == 1
    assert add(registry, 2).first_id == 3
    assert registry.drop(np.array([3])) == 3
    assert add(Registry(files)).first_id == 5


def test_a_number_pins_groups_and_drops(files: Files) -> None:
    registry = Registry(files)
    add(registry, 3)
    registry.drop(np.array([2, 0]))
    add(registry, 2)
    registry.drop(np.array([3]))
    for reader in (registry, Registry(files)):
        assert [g.number for g in reader.groups(0)] == []
        assert [g.number for g in reader.groups(2)] == [0]
        assert [g.number for g in reader.groups(4)] == [0, 2]
        assert [reader.dropped(n).tolist() for n in range(5)] == [[], [], [0, 2], [0, 2], [0, 2, 3]]
        assert [reader.drop_number(q) for q in range(6)] == [1, None, 1, 3, None, None]
    with pytest.raises(StoreError, match="registry/000000000004 is missing, though document 5 exists"):
        registry.groups(6)


def test_the_group_of_a_query(files: Files) -> None:
    registry = Registry(files)
    groups = [add(registry, count) for count in (1, 4, 2)]
    assert [registry.group_of(q).number for q in range(7)] == [0, 1, 1, 1, 1, 2, 2]
    assert Registry(files).group_of(6) == groups[2]  # looks for new documents by itself
    for unknown in (-1, 7):
        with pytest.raises(QueryError, match=f"there is no query {unknown}; ids go from 0 to 6"):
            registry.group_of(unknown)


def test_a_drop_is_all_or_none(files: Files) -> None:
    registry = Registry(files)
    add(registry, 3)
    registry.drop(np.array([1]))
    with pytest.raises(QueryError, match="there is no query 3"):
        registry.drop(np.array([0, 3]))
    with pytest.raises(QueryError, match="query 1 was dropped already, in registry document 1"):
        Registry(files).drop(np.array([0, 1]))
    with pytest.raises(QueryError, match="no ids"):
        registry.drop(np.array([], np.int64))
    assert registry.count == 2
    assert registry.dropped().tolist() == [1]


def test_of_two_drops_of_one_query_the_first_counts(files: Files) -> None:
    """Two clients that did not know of each other."""
    add(Registry(files), 3)
    one, two = Registry(files), Registry(files)
    two.drop(np.array([2]))
    careless = Draft({"kind": "drop", "count": 2}, pa.table({"id": [1, 2]}))
    one.append(lambda: careless)  # it does not look at what came meanwhile
    for reader in (one, Registry(files)):
        reader.refresh()
        assert reader.dropped().tolist() == [1, 2]
        assert reader.drop_number(2) == 1
        assert reader.dropped(2).tolist() == [2]


def test_a_shape_without_constants(files: Files) -> None:
    registry = Registry(files)
    group = registry.register(NewQueries("SELECT 1", (), pa.table({"none": [0]}), ["selection"], ["trade"], 0))
    assert (group.count, group.types) == (1, ())


def test_wrong_constants_are_refused(files: Files) -> None:
    registry = Registry(files)
    with pytest.raises(StoreError, match="no rows"):
        registry.register(NewQueries("s", (BIGINT,), pa.table({"c0": pa.array([], pa.int64())}), ["f"], ["s"], 0))
    with pytest.raises(StoreError, match="constants are \\['x'\\], expected c0"):
        registry.register(NewQueries("s", (BIGINT,), pa.table({"x": [1]}), ["f"], ["s"], 0))
    assert registry.count == 0


@pytest.mark.parametrize("shared", [False, True])
def test_many_clients_register_at_once(tmp_path: Path, shared: bool) -> None:
    """Each with a registry of its own, as in many processes; then threads that share one."""
    files = LocalFiles(tmp_path)
    start = threading.Barrier(4)
    one = Registry(files)

    def client(who: int) -> list[GroupRef]:
        registry = one if shared else Registry(files)
        start.wait()
        return [add(registry, who + 1, f"shape {who}") for _ in range(12)]

    with ThreadPoolExecutor(4) as pool:
        given = [group for groups in pool.map(client, range(4)) for group in groups]
    one.refresh()
    for reader in (Registry(files), one):
        reader.refresh()
        assert sorted(given, key=lambda g: g.number) == list(reader.groups())
        ids = [i for g in given for i in range(g.first_id, g.first_id + g.count)]
        assert sorted(ids) == list(range(reader.queries)) == list(range(12 * (1 + 2 + 3 + 4)))


def test_a_read_that_fails_half_way_loses_no_drop(files: Files) -> None:
    writer = Registry(files)
    add(writer, 3)
    writer.drop(np.array([1]))
    add(writer, 2)

    class Flaky(Counting):
        def read(self, path: str) -> bytes | None:
            if path == path_of(2) and not self.reads:
                self.reads += 1
                raise StoreError("the network is down")
            return self.files.read(path)

    reader = Registry(Flaky(files))  # type: ignore[arg-type]  # the rest is forwarded
    with pytest.raises(StoreError, match="network"):
        reader.refresh()
    assert everything(reader) == everything(Registry(files))


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_a_damaged_document_is_refused_by_name(files: Files, cut: int) -> None:
    add(Registry(files))
    data = files.read(path_of(0))
    assert data is not None
    files.delete(path_of(0))
    files.create(path_of(0), data[:cut])
    with pytest.raises(StoreError, match="registry/000000000000 is damaged"):
        Registry(files).refresh()


@pytest.mark.parametrize(
    ("kind", "number", "says"),
    [
        ("register", 1, "has format 1, this version reads 5 and 6"),
        ("rename", 6, "is a 'rename', expected register, drop, retry or label"),
        ("register", 6, "is damaged: KeyError"),
    ],
)
def test_a_document_of_another_kind_or_format_is_refused(files: Files, kind: str, number: int, says: str) -> None:
    metadata = {b"weir": f'{{"format": {number}, "kind": "{kind}", "token": "t"}}'.encode()}
    create_document(files, path_of(0), ROOT, to_ipc(pa.table({"id": [1]}), metadata))
    with pytest.raises(StoreError, match=f"registry/000000000000 {says}"):
        Registry(files).refresh()


# ── the directory's cache ──────────────────────────────────────────────────────────────────────────


class Counting:
    """Counts reads of registry documents."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.reads = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.files, name)

    def read(self, path: str) -> bytes | None:
        self.reads += path.startswith("registry/")
        return self.files.read(path)


@pytest.fixture
def cached(files: Files, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Twenty-three documents and a cache of the first twenty."""
    monkeypatch.setattr(registry_module, "CACHE_EVERY", 10)
    registry = Registry(files)
    for n in range(20):
        if n % 7 == 6:
            registry.drop(np.array([n - 3]))
        else:
            add(registry, n + 1, f"shape {n % 3}", (BIGINT, DOUBLE)[: 1 + n % 2])
    for _ in range(3):
        add(registry)
    return files


def everything(registry: Registry) -> tuple[object, ...]:
    registry.refresh()
    drops = [registry.drop_number(q) for q in range(registry.queries)]
    return registry.count, registry.queries, registry.groups(), registry.dropped().tolist(), drops


def uncached(files: Files) -> tuple[object, ...]:
    for entry in list(files.list("cache")):
        files.delete(entry.path)
    return everything(Registry(files))


def test_opening_reads_the_cache_and_what_is_newer(cached: Files) -> None:
    counting = Counting(cached)
    found = everything(Registry(counting))  # type: ignore[arg-type]  # the rest is forwarded
    assert counting.reads == 3 + 1  # the newer ones, and the end; of the newest cached one the head, from a copy
    assert found == uncached(cached)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "renamed"])
def test_a_damaged_cache_changes_nothing(cached: Files, damage: str) -> None:
    for entry in list(cached.list("cache")):
        data = cached.read(entry.path) or b""
        cached.delete(entry.path)
        if damage == "renamed":
            number = 19 if "20" in entry.path else 9
            cached.create(f"cache/folded/registry-{number}.arrow", data)
        else:
            middle = len(data) // 2
            flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
            cached.create(entry.path, {"cut": data[:middle], "flip": flipped, "empty": b""}[damage])
    found = everything(Registry(cached))
    assert found == uncached(cached)


def test_a_cache_of_another_weir_is_ignored(cached: Files, tmp_path: Path) -> None:
    other = ObjectFiles(MemoryStore(), cache=tmp_path)
    for entry in cached.list("cache"):
        other.create(entry.path, cached.read(entry.path) or b"")
    registry = Registry(other)
    for _ in range(21):
        add(registry)
    found = everything(Registry(other))
    assert found[:2] == (21, 21)
    assert found == uncached(other)


def test_a_folder_that_takes_no_cache_is_no_error(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "CACHE_EVERY", 2)

    class ReadOnlyCache(Counting):
        def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
            if path.startswith("cache/"):
                raise StoreError("read-only")
            return self.files.create(path, data, durable=durable)

    registry = Registry(ReadOnlyCache(files))  # type: ignore[arg-type]  # the rest is forwarded
    for _ in range(5):
        add(registry)
    assert registry.count == 5


def constants_of(files: Files, number: int) -> pa.Table:
    """What a new reader finds in a group."""
    registry = Registry(files)
    registry.refresh()
    return registry.constants(registry.groups()[number])


def test_a_document_of_another_weir_is_noticed_though_a_cache_knows_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "CACHE_EVERY", 1)
    ours, theirs = LocalFiles(tmp_path / "ours"), LocalFiles(tmp_path / "theirs")
    for files, shape in ((ours, "ours"), (theirs, "theirs")):
        registry = Registry(files)
        add(registry, 3, shape)
        add(registry, 2, shape)
    for number in (0, 1):  # one that another follows, and the newest one
        whole = (tmp_path / "ours" / path_of(number)).read_bytes()
        (tmp_path / "ours" / path_of(number)).write_bytes((tmp_path / "theirs" / path_of(number)).read_bytes())
        with pytest.raises(StoreError, match="follow"):
            constants_of(ours, number)
        (tmp_path / "ours" / path_of(number)).write_bytes(whole)


def test_a_damaged_newest_document_of_drops_is_noticed_though_a_cache_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "CACHE_EVERY", 1)
    registry = Registry(LocalFiles(tmp_path))
    add(registry, 9)
    registry.drop(np.arange(5))
    document = tmp_path / path_of(1)
    data = bytearray(document.read_bytes())
    data[-9] ^= 1
    document.unlink()
    document.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"):
        Registry(LocalFiles(tmp_path)).refresh()
