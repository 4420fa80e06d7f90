"""What this machine gives Weir, and what is wrong with it: the report of `weir doctor`.

Each finding names one thing that a run needs, what was found and where. A finding that is wrong says what to do; one
that merely costs time says so. Nothing is changed, nothing is started but `java -version`.
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from weir.errors import RunError
from weir.index import jit
from weir.runtime import java

PYTHONS = (3, 11), (3, 14)  # the oldest and the newest version that all dependencies support
DISK_BYTES_MIN = 1 << 30
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a run needs."""

    thing: str
    found: str
    wrong: str = ""  # what stops a run, and what to do
    costs: str = ""  # what is worse than it could be

    def __str__(self) -> str:
        mark = "wrong" if self.wrong else "costs" if self.costs else "ok"
        return f"{mark:6}{self.thing:9}{self.found}" + "".join(
            f"\n{'':15}{remark}" for remark in (self.wrong, self.costs) if remark
        )


def examine(folder: str = ".") -> list[Finding]:
    """Look at everything that a run in `folder` needs."""
    disks = [_disk("disk", folder), _disk("scratch", tempfile.gettempdir())]
    return [_user(), _python(), _java(), _spark(), _kernels(), *disks]


def report(findings: list[Finding]) -> str:
    """All findings in one screen."""
    return "\n".join(str(finding) for finding in findings)


def _user() -> Finding:
    try:
        return Finding("user", pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return Finding(
            "user", f"id {os.getuid()}", "it has no name, and Hadoop's log-in needs one: add it to /etc/passwd"
        )


def _python() -> Finding:
    (low_major, low), (high_major, high) = PYTHONS
    found = f"{platform.python_version()}, {sys.executable}"
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return Finding(
            "python", found, f"use Python {low_major}.{low} to {high_major}.{high}, which all dependencies support"
        )
    return Finding("python", found)


def _java() -> Finding:
    seen = []
    for one in java.look():
        if one.is_usable:
            found = f"{one.version}, {one.place}: {one.command}"
            if one.has_vector:
                return Finding("java", found)
            try:
                home = java.stand_in(one)
            except RunError as wrong:
                return Finding("java", found, wrong=str(wrong))
            return Finding("java", f"{found}\n{'':15}for a Spark session of your own: JAVA_HOME={home}")
        seen.append(one)
    return Finding("java", java.listed(seen), wrong=java.NO_JAVA_HINT)


def _spark() -> Finding:
    version = metadata.version("pyspark")
    given = os.environ.get("SPARK_HOME")
    own = Path(str(metadata.distribution("pyspark").locate_file("pyspark")))
    wrong = ""
    if given and Path(given).resolve() != own.resolve():
        wrong = f"SPARK_HOME names another Spark, {given}, which would be started: unset it"
    try:
        java.ensure_bash()
    except RunError as error:
        wrong = str(error)
    return Finding("spark", f"{version}, {own}", wrong)


def _kernels() -> Finding:
    folder = jit.cache_folder()
    if folder is None:
        return Finding(
            "kernels",
            "no folder for compiled code",
            costs="every process compiles its kernels anew, about a minute: set XDG_CACHE_HOME to a folder of yours",
        )
    count = len(list(folder.rglob("*.nbi")))
    return Finding("kernels", f"{count} compiled, {folder}" if count else f"none compiled yet, {folder}")


def _disk(thing: str, folder: str) -> Finding:
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{free / GIB:.1f} GiB free, {place}"
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(thing, found, "it cannot be written: choose another folder" + _elsewhere(thing))
    if free < DISK_BYTES_MIN:
        return Finding(
            thing, found, f"a run needs at least {DISK_BYTES_MIN / GIB:.0f} GiB: free some" + _elsewhere(thing)
        )
    return Finding(thing, found)


def _elsewhere(thing: str) -> str:
    return " or set TMPDIR" if thing == "scratch" else ""
