"""Local copies of an object store's files: of what is gone, every host drops its own."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from weir.errors import StoreError
from weir.store.copies import SWEEP_S, SWEPT
from weir.store.files import ObjectFiles


class Hosts:
    """Two hosts with one store; the second never deletes anything itself."""

    def __init__(self, folder: Path) -> None:
        store = MemoryStore()
        self.first = ObjectFiles(store, cache=folder / "first")
        self.second = ObjectFiles(store, cache=folder / "second")
        self.folder = folder / "second"

    def copies(self) -> set[str]:
        return {p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file()} - {SWEPT}

    def wait(self) -> None:
        """Let it be long ago that the second host looked."""
        long_ago = time.time() - SWEEP_S - 1
        os.utime(self.folder / SWEPT, (long_ago, long_ago))


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_copies_of_files_that_are_gone_go_too(hosts: Hosts) -> None:
    """A job writes and deletes segments and rows for ever; a host that only reads has what there is, and no more."""
    for n in range(30):
        path = f"{('rows', 'cache/segments')[n % 2]}/{n:012d}"
        hosts.first.write(path, b"some rows")
        assert hosts.second.local_path(path) is not None
        if n >= 4:
            hosts.first.delete(f"{('rows', 'cache/segments')[n % 2]}/{n - 4:012d}")
        hosts.wait()
    living = {entry.path for entry in hosts.first.list("")}
    assert len(living) == 4
    assert living <= hosts.copies()
    assert len(hosts.copies()) <= len(living) + 1, "a file that went after the last look"


def test_a_host_looks_now_and_then_only(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.first.write("rows/a", b"a")
    hosts.second.local_path("rows/a")
    listed = []
    inner = ObjectFiles.list
    monkeypatch.setattr(ObjectFiles, "list", lambda files, prefix: listed.append(prefix) or inner(files, prefix))
    for n in range(10):
        hosts.first.write(f"rows/{n}", b"b")
        hosts.second.local_path(f"rows/{n}")
    assert listed == []
    hosts.wait()
    for n in range(10, 20):
        hosts.first.write(f"rows/{n}", b"b")
        hosts.second.local_path(f"rows/{n}")
    assert listed == ["rows"]
    assert len(hosts.copies()) == 21


def test_who_has_a_copy_mapped_keeps_it(hosts: Hosts) -> None:
    hosts.first.write("rows/a", b"mapped")
    hosts.first.write("rows/b", b"new")
    path = hosts.second.local_path("rows/a")
    assert path is not None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        hosts.first.delete("rows/a")
        hosts.wait()
        assert hosts.second.local_path("rows/b") is not None
        assert not hosts.second.has_copy("rows/a"), "so that caches of this process forget it"
        assert mapped[:] == b"mapped"
    assert hosts.second.local_path("rows/a") is None


def test_half_a_copy_of_a_process_that_died_goes(hosts: Hosts) -> None:
    hosts.first.write("rows/a", b"a")
    hosts.first.write("rows/b", b"b")
    hosts.second.local_path("rows/a")
    old, new = hosts.folder / "rows" / ".c.old", hosts.folder / "rows" / ".c.new"
    for half in (old, new):
        half.write_bytes(b"half")
    os.utime(old, (1, 1))
    hosts.wait()
    hosts.second.local_path("rows/b")
    assert hosts.copies() == {"rows/a", "rows/b", "rows/.c.new"}


def test_a_store_that_cannot_be_listed_spoils_no_read(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.first.write("rows/a", b"a")
    hosts.first.write("rows/b", b"b")
    hosts.second.local_path("rows/a")

    def fails(_: ObjectFiles, prefix: str) -> list[str]:
        raise StoreError("the network is down")

    monkeypatch.setattr(ObjectFiles, "list", fails)
    hosts.wait()
    assert hosts.second.local_path("rows/b") is not None
    assert hosts.copies() == {"rows/a", "rows/b"}
