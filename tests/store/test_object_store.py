"""A weir in an object store: through an S3 server of this machine, with and without Spark; and unfit stores."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from tests.poison import World
from weir.errors import OpenError
from weir.store.files import ObjectFiles, open_files
from weir.testing.direct import DirectWeir

needs_server = [
    pytest.mark.soak,
    pytest.mark.skipif(
        importlib.util.find_spec("moto") is None, reason="needs the extra `stores`, which `make soak` installs"
    ),
]
SPARK = textwrap.dedent("""
    import sys
    from tests.poison import World
    from weir.runtime.session import local_session
    from pathlib import Path

    world = World("s3://bucket/spark", local_session(cores=2), checkpoint=sys.argv[1])
    for _ in range(3):
        for name, rows in world.new_rows().items():
            world.weir.push(name, rows)
        world.weir.run(available_now=True)
        world.check()
    assert world.weir.query(0).explain().count("materialised since batch 0") == 1
    print("all well")
""")


def test_a_store_without_conditional_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = ObjectFiles(MemoryStore())
    files.require_conditional_writes()
    put = obstore.put

    def overwrite(store: Any, path: str, data: bytes, **_: object) -> object:
        return put(store, path, data)

    monkeypatch.setattr(obstore, "put", overwrite)
    with pytest.raises(OpenError, match="has no conditional writes"):
        files.require_conditional_writes()
    assert not list(files.list("tmp"))


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    """The environment in which s3://bucket is a bucket of a server on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/moto-api/").read()
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).read()
        yield {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip
    finally:
        process.kill()
        process.wait()


class TestS3:
    pytestmark = needs_server

    def test_a_file_is_created_once(self, server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in server.items():
            monkeypatch.setenv(name, value)
        files = open_files("s3://bucket/once")
        files.require_conditional_writes()
        assert files.create("a", b"first")
        assert not files.create("a", b"second")
        assert files.read("a") == b"first"

    def test_answers_equal_the_oracle(self, server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in server.items():
            monkeypatch.setenv(name, value)
        world = World("s3://bucket/direct")
        direct = DirectWeir(world.weir, wall_us=10**16)
        for batch in range(4):
            direct.batch(world.new_rows())
            if batch == 1:
                world.one("SELECT a FROM R WHERE b < {x}", 50)
                world.weir.vacuum()
            world.check()

    def test_on_spark(self, server: dict[str, str], tmp_path: Path) -> None:
        root = Path(__file__).parent.parent.parent
        done = subprocess.run(
            [sys.executable, "-c", SPARK, str(tmp_path / "checkpoint")],
            env={**os.environ, **server},
            cwd=root,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert "all well" in done.stdout
