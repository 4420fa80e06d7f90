"""Names: one standing query each, in every process, whoever is quicker, and after every restart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from tests.marks import few_are_quick
from weir.algebra.schema import BIGINT, DOUBLE, list_of
from weir.errors import QueryError, StoreError
from weir.store import labels as labels_module
from weir.store import registry as registry_module
from weir.store.arrow import to_ipc
from weir.store.documents import create_document
from weir.store.files import Files, LocalFiles, ObjectFiles
from weir.store.labels import Labels
from weir.store.naming import Named, register_named, replace_query
from weir.store.query_groups import NO_LABEL, KeptAs, Label, NewQueries, Written
from weir.store.registry import Registry, path_of


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return ObjectFiles(MemoryStore(), cache=tmp_path)


def opened(files: Files) -> Labels:
    """As another process would have it."""
    labels = Labels(Registry(files))
    labels.registry.refresh()
    return labels


def new(values: Sequence[object], shape: str = "shape", *, kept: bool = False, label: Label = NO_LABEL) -> NewQueries:
    table = pa.table({"c0": pa.array(values, pa.int64())})
    kept_as = KeptAs(shape) if kept else None
    return NewQueries(shape, (BIGINT,), table, ["selection"], ["trade"], 4, kept_as, Written(f"of {shape}"), label)


def put(labels: Labels, names: Sequence[str], values: Sequence[object], shape: str = "shape", **more: object) -> Named:
    return register_named(labels, new(values, shape, **more), pa.array(names, pa.string()))  # type: ignore[arg-type]


def test_a_name_is_given_once_and_then_means_the_same_query(files: Files) -> None:
    labels = opened(files)
    first = put(labels, ["a", "b"], [1, 2])
    assert first.ids.tolist() == [0, 1]
    again = put(opened(files), ["b", "a"], [2, 1])
    assert (again.ids.tolist(), again.group) == ([1, 0], None)
    labels.registry.refresh()
    assert labels.registry.count == 1, "nothing was written"


def test_what_is_another_query_replaces_the_old_one_in_one_document(files: Files) -> None:
    labels = opened(files)
    put(labels, ["a", "b", "c"], [1, 2, None])
    named = put(opened(files), ["b", "c", "d"], [7, None, 5])
    assert named.ids.tolist() == [3, 2, 4]
    labels.registry.refresh()
    assert labels.registry.count == 2
    assert [labels.registry.dropped(n).tolist() for n in range(3)] == [[], [], [1]]
    assert [labels.find(name) for name in "abcdx"] == [0, 3, 2, 4, None]
    assert labels.names_of(np.arange(5)).to_pylist() == ["a", "b", "c", "b", "d"]
    assert labels.replaced_by(1) == 3
    assert labels.registry.constants(labels.registry.group_of(3)).to_pydict() == {"c0": [7, 5]}


@pytest.mark.parametrize(
    "other",
    [
        lambda n: replace(n, shape_text="another"),
        lambda n: replace(n, types=(DOUBLE,), constants=n.constants.cast(pa.schema([("c0", pa.float64())]))),
        lambda n: replace(n, kept_as=KeptAs("shape")),
        lambda n: replace(n, constants=pa.table({"c0": pa.array([None], pa.int64())})),
    ],
)
def test_a_query_of_another_shape_type_keeping_or_constant_is_another(
    files: Files, other: Callable[[NewQueries], NewQueries]
) -> None:
    labels = opened(files)
    names = pa.array(["a"])
    register_named(labels, new([1]), names)
    changed = other(new([1]))
    assert register_named(labels, changed, names).ids.tolist() == [1]
    assert register_named(labels, changed, names).ids.tolist() == [1], "and it is the same from there on"


def test_not_a_number_and_lists_are_equal_to_themselves(files: Files) -> None:
    labels = opened(files)
    values = pa.array([[1, None], [], None], pa.list_(pa.int64()))
    table = pa.table({"c0": pa.array([float("nan"), 0.0, None]), "c1": values})
    given = replace(new([1]), types=(DOUBLE, list_of(BIGINT)), constants=table)
    names = pa.array(["a", "b", "c"])
    assert register_named(labels, given, names).ids.tolist() == [0, 1, 2]
    assert register_named(labels, given, names).group is None
    changed = table.set_column(1, "c1", pa.array([[1, None], [1], None], pa.list_(pa.int64())))
    assert register_named(labels, replace(given, constants=changed), names).ids.tolist() == [0, 3, 2]


def test_other_tags_and_another_owner_are_written_down_and_the_query_stays(files: Files) -> None:
    labels = opened(files)
    put(labels, ["a", "b"], [1, 2], label=Label(("x",), "me"))
    assert put(labels, ["a"], [1], label=Label((), "you")).ids.tolist() == [0]
    count = labels.registry.count
    put(labels, ["a"], [1], label=Label((), "you"))
    assert labels.registry.count == count == 2
    for reader in (labels, opened(files)):
        assert [reader.label_of(id) for id in (0, 1)] == [Label((), "you"), Label(("x",), "me")]


def test_a_query_takes_the_place_of_another_with_its_name_and_label(files: Files) -> None:
    labels = opened(files)
    put(labels, ["a"], [1], label=Label(("x",), "me"))
    labels.registry.register(new([5]))
    assert replace_query(labels, new([2]), 0).ids.tolist() == [2]
    assert replace_query(labels, new([2]), 2).ids.tolist() == [2], "nothing changes"
    assert (labels.find("a"), labels.label_of(2)) == (2, Label(("x",), "me"))
    assert replace_query(labels, new([6]), 1).ids.tolist() == [3]
    assert labels.names_of(np.array([1, 3])).to_pylist() == [None, None]
    with pytest.raises(QueryError, match="query 0 was dropped already, in registry document 2"):
        replace_query(labels, new([3]), 0)


def test_a_name_is_free_when_its_query_is_dropped(files: Files) -> None:
    labels = opened(files)
    put(labels, ["a"], [1])
    labels.registry.drop(np.array([0]))
    assert labels.find("a") is None
    assert put(labels, ["a"], [1]).ids.tolist() == [1]
    assert labels.replaced_by(0) is None


class Slow:
    """Has somebody else write a document just before the first one is created."""

    def __init__(self, files: Files, other: Callable[[], object]) -> None:
        self.files, self.other = files, other

    def __getattr__(self, name: str) -> object:
        return getattr(self.files, name)

    def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        if path.startswith("registry/"):
            other, self.other = self.other, lambda: None
            other()
        return self.files.create(path, data, durable=durable)


def slow(files: Files, other: Callable[[], object]) -> Labels:
    return opened(Slow(files, other))  # type: ignore[arg-type]  # the rest is forwarded


def test_who_loses_a_race_for_a_name_gets_the_same_query_or_replaces_it(files: Files) -> None:
    lost = put(slow(files, lambda: put(opened(files), ["a"], [1])), ["a"], [1])
    assert (lost.ids.tolist(), lost.group) == ([0], None)
    lost = put(slow(files, lambda: put(opened(files), ["a"], [2])), ["a"], [3])
    assert lost.ids.tolist() == [2]
    labels = opened(files)
    assert labels.registry.dropped().tolist() == [0, 1]
    lost = put(slow(files, lambda: labels.registry.drop(np.array([2]))), ["a"], [4])
    assert lost.ids.tolist() == [3]
    labels.registry.refresh()
    assert labels.replaced_by(2) is None, "it was gone by itself"


def test_a_drop_that_loses_a_race_looks_again(files: Files) -> None:
    put(opened(files), ["a", "b"], [1, 2])
    other = slow(files, lambda: put(opened(files), ["a"], [5]))
    with pytest.raises(QueryError, match="query 0 was dropped already, in registry document 1"):
        other.registry.drop(np.array([0, 1]))
    other = slow(files, lambda: put(opened(files), ["a"], [6]))
    gone = other.registry.drop_chosen(lambda: np.array([other.find("a")]))
    assert gone.tolist() == [3], "the query that has the name by then"


@pytest.mark.parametrize("shared", [False, True])
def test_many_clients_give_the_same_names_at_once(tmp_path: Path, shared: bool) -> None:
    """At each moment a name has at most one query, and who was told an id was told the truth."""
    files = LocalFiles(tmp_path)
    start = threading.Barrier(4)
    one = opened(files)

    def client(who: int) -> list[tuple[str, int, int]]:
        labels = one if shared else opened(files)
        rng = np.random.default_rng(who)
        start.wait()
        told = []
        for _ in range(10):
            names = rng.choice(["a", "b", "c"], rng.integers(1, 4), replace=False).tolist()
            values = rng.integers(0, 2, len(names)).tolist()
            ids = put(labels, names, values).ids.tolist()
            told += list(zip(names, values, ids, strict=True))
        return told

    with ThreadPoolExecutor(4) as pool:
        told = [each for of in pool.map(client, range(4)) for each in of]
    labels = opened(files)
    registry = labels.registry
    assert len({id: (name, value) for name, value, id in told}) == len(set(told)), "an id is one query"
    for name, value, id in told:
        group = registry.group_of(id)
        assert registry.constants(group)["c0"][id - group.first_id].as_py() == value
        assert labels.names_of(np.array([id])).to_pylist() == [name]
    names = labels.names_of(np.arange(registry.queries)).to_pylist()
    for number in range(registry.count + 1):
        end = max((group.end_id for group in registry.groups(number)), default=0)
        standing = [names[id] for id in range(end) if id not in registry.dropped(number)]
        assert len(standing) == len(set(standing))


# ── what is read of documents ──


def history(files: Files, seed: int, steps: int) -> dict[str, tuple[int, int]]:
    """Random registrations, drops and labels; by name the value and the id of its query, as a dict has them."""
    rng = np.random.default_rng(seed)
    labels = opened(files)
    twin: dict[str, tuple[int, int]] = {}
    for _ in range(steps):
        names = [f"n{k}" for k in rng.choice(40, rng.integers(1, 12), replace=False)]
        values = rng.integers(0, 3, len(names)).tolist()
        if rng.random() < 0.2 and twin:
            name = sorted(twin)[0]
            labels.registry.drop(np.array([twin.pop(name)[1]]))
            continue
        if rng.random() < 0.2:
            labels.registry.register(new(values))  # without names
            continue
        ids = put(labels, names, values, label=Label((f"t{rng.integers(3)}",))).ids.tolist()
        for name, value, id in zip(names, values, ids, strict=True):
            assert (name in twin and twin[name] == (value, id)) or id >= 0
            if name in twin and twin[name][0] == value:
                assert id == twin[name][1], "the same query"
            twin[name] = value, id
    return twin


def expect(labels: Labels, twin: dict[str, tuple[int, int]]) -> None:
    names = [f"n{k}" for k in range(41)]
    expected = [twin[name][1] if name in twin else -1 for name in names]
    assert labels.find_many(pa.array(names)).tolist() == expected
    assert [labels.find(name) for name in names] == [id if id >= 0 else None for id in expected]
    standing = np.array(sorted(id for _, id in twin.values()), np.int64)
    by_id = {id: name for name, (_, id) in twin.items()}
    assert labels.names_of(standing).to_pylist() == [by_id[id] for id in standing.tolist()]


@pytest.mark.parametrize("seed", few_are_quick(range(6)))
def test_names_are_what_a_dict_would_have(files: Files, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Also with caches, and from any cache there is."""
    monkeypatch.setattr(labels_module, "CACHE_EVERY", 7)
    monkeypatch.setattr(registry_module, "CACHE_EVERY", 5)
    twin = history(files, seed, 60)
    cached = opened(files)
    expect(cached, twin)
    assert any(entry.path.startswith("cache/folded/labels-") for entry in files.list("cache"))
    ids = np.arange(cached.registry.queries)
    found = [cached.label_of(id) for id in ids.tolist()], cached.names_of(ids).to_pylist(), cached.groups()
    for entry in list(files.list("cache")):
        files.delete(entry.path)
    plain = opened(files)
    expect(plain, twin)
    assert ([plain.label_of(id) for id in ids.tolist()], plain.names_of(ids).to_pylist(), plain.groups()) == found


@pytest.mark.parametrize("damage", ["cut", "flip", "renamed"])
def test_a_damaged_cache_changes_nothing(files: Files, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(labels_module, "CACHE_EVERY", 5)
    twin = history(files, 3, 30)
    for entry in [e for e in files.list("cache") if e.path.startswith("cache/folded/labels-")]:
        data = files.read(entry.path) or b""
        files.delete(entry.path)
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
        if damage == "renamed":
            files.create("cache/labels-3.arrow", data)
        else:
            files.create(entry.path, data[:middle] if damage == "cut" else flipped)
    expect(opened(files), twin)


def test_queries_without_names_leave_nothing_in_memory(files: Files) -> None:
    labels = opened(files)
    labels.registry.register(new(range(1_000)))
    assert labels.find("a") is None
    assert labels._blocks == []
    assert labels.names_of(np.arange(1_000)).null_count == 1_000


def test_documents_of_the_format_before_are_read(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "FORMAT", 5)
    plain = new([1, 2])
    about = {key: value for key, value in plain.about().items() if key not in ("written", "label")}
    monkeypatch.setattr(NewQueries, "about", lambda _: about)
    Registry(files).register(plain)
    labels = opened(files)
    assert (labels.written(1), labels.label_of(1), labels.find("a")) == (None, NO_LABEL, None)
    assert labels.registry.constants(labels.registry.group_of(0)).to_pydict() == {"c0": [1, 2]}


def test_a_damaged_label_is_refused_by_name(files: Files) -> None:
    put(opened(files), ["a"], [1])
    registry = Registry(files)
    registry.refresh()
    metadata = {b"weir": b'{"format": 6, "kind": "label", "token": "t"}'}
    create_document(files, path_of(1), registry.head, to_ipc(pa.table({"id": [0]}), metadata))
    with pytest.raises(StoreError, match="registry/000000000001 is damaged: KeyError"):
        opened(files).label_of(0)
