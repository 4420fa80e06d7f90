"""One contract for local disks and object stores; then what only a disk can do: fill up, tear, be shared, be killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore, MemoryStore

from weir.errors import OpenError, StoreError
from weir.store import files as files_module
from weir.store.files import Files, LocalFiles, ObjectFiles, open_files

Make = Callable[[], Files]


@pytest.fixture(params=["disk", "memory", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "disk":
        return LocalFiles(tmp_path / "root")
    if request.param == "memory":
        return ObjectFiles(MemoryStore(), cache=tmp_path / "cache")
    (tmp_path / "bucket").mkdir()
    return ObjectFiles(LocalStore(tmp_path / "bucket"), "bucket", tmp_path / "cache")


def names(files: Files, prefix: str) -> set[str]:
    return {entry.path for entry in files.list(prefix)}


# ── the contract ───────────────────────────────────────────────────────────────────────────────────


def test_a_document_has_one_creator(files: Files) -> None:
    assert files.create("ledger/0.plan", b"mine")
    assert not files.create("ledger/0.plan", b"yours")
    assert files.read("ledger/0.plan") == b"mine"


def test_what_is_not_there_is_none(files: Files) -> None:
    assert files.read("a/b") is None
    assert not files.exists("a/b")
    assert files.local_path("a/b") is None
    assert names(files, "a") == set()
    files.delete("a/b")


@pytest.mark.parametrize("data", [b"", b"x", bytearray(b"xy"), memoryview(b"0123456789")[2:5], b"\0" * 300_000])
def test_content_comes_back(files: Files, data: bytes) -> None:
    assert files.create("doc", data)
    assert files.read("doc") == bytes(data)
    local = files.local_path("doc")
    assert local is not None
    assert local.read_bytes() == bytes(data)


def test_data_files_are_never_overwritten(files: Files) -> None:
    files.write("rows/a", b"1")
    with pytest.raises(StoreError, match="'rows/a' exists already"):
        files.write("rows/a", b"2")
    assert files.read("rows/a") == b"1"


def test_a_listing_is_of_a_folder_at_any_depth(files: Files) -> None:
    for path in ("rows/trade/1", "rows/2", "rows2/3", "other"):
        files.write(path, b"abc")
    assert names(files, "rows") == {"rows/trade/1", "rows/2"}
    assert names(files, "rows/") == {"rows/trade/1", "rows/2"}
    assert names(files, "rows/trade") == {"rows/trade/1"}
    assert {entry.size for entry in files.list("rows")} == {3}
    assert all(entry.mtime_s > 1_600_000_000 for entry in files.list("rows"))


def test_a_deleted_file_is_gone(files: Files) -> None:
    files.write("a/b", b"1")
    assert files.local_path("a/b") is not None
    files.delete("a/b")
    assert files.read("a/b") is None
    assert files.local_path("a/b") is None
    assert files.create("a/b", b"2")


def test_of_many_threads_one_creates(files: Files) -> None:
    def race(who: int) -> list[bool]:
        return [files.create(f"race/{n}", f"{who}".encode()) for n in range(40)]

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    for n in range(40):
        winners = [who for who in range(8) if won[who][n]]
        assert len(winners) == 1
        assert files.read(f"race/{n}") == f"{winners[0]}".encode()


# ── the disk ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def disk(tmp_path: Path) -> LocalFiles:
    files = LocalFiles(tmp_path / "root")
    files.create("warm", b"")  # the folders exist
    return files


def left_behind(disk: LocalFiles) -> set[str]:
    return names(disk, "") - {"warm"}


@pytest.mark.parametrize("call", ["open", "write", "fsync", "link"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
def test_a_failing_disk_leaves_nothing(disk: LocalFiles, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    real = getattr(os, call)

    def fail(*args: object, **named: object) -> object:
        if call == "write":  # a full disk takes a part first
            real(args[0], memoryview(b"half"))
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError, match=rf"cannot write 'ledger/7\.done' in .*: {os.strerror(code)}; ") as raised:
        disk.create("ledger/7.done", b"content")
    monkeypatch.undo()
    assert left_behind(disk) == set()
    if code in (errno.ENOSPC, errno.EDQUOT):
        assert "free some space" in str(raised.value)
    assert disk.create("ledger/7.done", b"content")
    assert disk.read("ledger/7.done") == b"content"


def test_a_disk_without_hard_links_is_named(disk: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError, match="hard links; use another disk or an object store"):
        disk.create("a", b"1")


def test_a_slow_disk_that_writes_in_pieces(disk: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    assert disk.create("a", b"0123456789")
    assert disk.read("a") == b"0123456789"


def test_a_file_is_durable_before_it_has_its_name(disk: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are synced before the link, the folder after it; a new folder in its parent before it is used."""
    calls: list[str] = []
    opened: dict[int, str] = {}

    def watch(name: str, say: Callable[..., str]) -> None:
        real = getattr(os, name)

        def called(*args: object, **named: object) -> object:
            result = real(*args, **named)
            calls.append(say(result, *args))
            return result

        monkeypatch.setattr(os, name, called)

    def remember(handle: int, path: object, *_: object) -> str:
        opened[handle] = str(path).removeprefix(str(disk.root)).strip("/").split("/")[0] or "the root"
        return "open"

    watch("open", remember)
    watch("fsync", lambda _, handle: f"sync {opened[handle]}")
    watch("link", lambda *_: "link")
    watch("mkdir", lambda *_: "mkdir")
    assert disk.create("new/doc", b"1")
    assert [c for c in calls if c != "open"] == ["sync tmp", "mkdir", "sync the root", "link", "sync new"]
    calls.clear()
    assert not disk.create("new/doc", b"2")  # the loser, too, makes the winner's name durable
    assert calls[-1] == "sync new"


def test_a_path_cannot_leave_the_root(disk: LocalFiles) -> None:
    for path in ("../x", "/etc/passwd", "a/../../x", "a/.."):
        with pytest.raises(StoreError, match="leads out of"):
            disk.create(path, b"")
    half_written = "offsets/..0.7ed4.tmp.crc"  # as Spark leaves it in a checkpoint when the disk is full
    assert disk.create(half_written, b"")
    assert [entry.path for entry in disk.list("offsets")] == [half_written]


def test_a_temporary_file_that_vacuum_took_is_an_error(disk: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link_after_vacuum(source: str, target: str) -> None:
        os.unlink(source)
        real(source, target)

    monkeypatch.setattr(os, "link", link_after_vacuum)
    with pytest.raises(StoreError, match="cannot write 'a'"):
        disk.create("a", b"1")
    assert not disk.exists("a")


CREATOR = """
import sys
from pathlib import Path
from weir.store.files import LocalFiles

files, who = LocalFiles(Path(sys.argv[1])), sys.argv[2]
for n in range(int(sys.argv[3])):
    won = files.create(f"race/{n:06d}", (who * 50_000).encode())
    print(n, int(won), flush=True)
"""


def start_creator(root: Path, who: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CREATOR, str(root), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_many_processes_one_creates(tmp_path: Path) -> None:
    creators = {who: start_creator(tmp_path, who, 40) for who in "ab"}
    won = {who: dict(map(str.split, (process.communicate()[0]).splitlines())) for who, process in creators.items()}
    for n in range(40):
        winners = [who for who in "ab" if won[who][str(n)] == "1"]
        assert len(winners) == 1
        assert LocalFiles(tmp_path).read(f"race/{n:06d}") == (winners[0] * 50_000).encode()


def test_a_killed_creator_leaves_whole_documents(tmp_path: Path) -> None:
    creator = start_creator(tmp_path, "z", 1_000_000)
    assert creator.stdout is not None
    acknowledged = -1
    while acknowledged < 25:
        acknowledged = int(creator.stdout.readline().split()[0])
    creator.kill()
    creator.communicate()
    files = LocalFiles(tmp_path)
    found = names(files, "race")
    assert {f"race/{n:06d}" for n in range(acknowledged + 1)} <= found
    assert all(files.read(path) == b"z" * 50_000 for path in found)


# ── object stores ──────────────────────────────────────────────────────────────────────────────────


def test_a_retried_put_recognises_its_own_object(tmp_path: Path) -> None:
    """S3 answers 412 to a retry whose first try went through: equal bytes (with a token in them) are ours."""
    files = ObjectFiles(LocalStore(tmp_path), "bucket")
    assert files.create("doc", b"token 1")
    assert files.create("doc", b"token 1")
    assert not files.create("doc", b"token 2")


def test_a_store_that_fails_is_an_error_with_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ObjectFiles(MemoryStore(), "s3://bucket/weir", tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise GenericError("Generic S3 error: no route to host\n\nDebug source: …")

    for verb, call in {
        "put": lambda: files.create("a", b""),
        "get": lambda: files.read("a"),
        "head": lambda: files.exists("a"),
        "delete": lambda: files.delete("a"),
        "list": lambda: list(files.list("a")),
    }.items():
        monkeypatch.setattr(obstore, verb, fail)
        with pytest.raises(StoreError, match="'a' in s3://bucket/weir: Generic S3 error: no route to host; check"):
            call()


def test_a_host_copies_an_object_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ObjectFiles(MemoryStore(), cache=tmp_path / "cache")
    files.write("rows/a", b"content")
    copy = files.local_path("rows/a")
    monkeypatch.setattr(obstore, "get", None)  # nothing may be fetched any more
    assert files.local_path("rows/a") == copy
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_cache_that_another_user_prepared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ObjectFiles(MemoryStore(), cache=tmp_path / "cache")
    files.write("a", b"1")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(StoreError, match="belongs to somebody else"):
        files.local_path("a")


def test_locations(tmp_path: Path) -> None:
    assert isinstance(open_files(str(tmp_path)), LocalFiles)
    assert open_files(f"file://{tmp_path}").location == str(tmp_path)
    assert isinstance(open_files("memory://"), ObjectFiles)
    assert open_files("s3://bucket/path").location == "s3://bucket/path"
    with pytest.raises(OpenError, match="'ftp://x/y' cannot be opened: .*; give a folder, or s3://"):
        open_files("ftp://x/y")


def test_tokens_are_unique() -> None:
    assert len({files_module.unique() for _ in range(1000)}) == 1000


@pytest.fixture(autouse=True)
def _no_hook() -> Iterator[None]:
    assert files_module.on_reach(None) is None
    yield
    assert files_module.on_reach(None) is None
