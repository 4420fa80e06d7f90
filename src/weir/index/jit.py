"""The one decorator of all kernels, and where their compiled code is cached.

A kernel is compiled once for each source text: the cache folder carries a hash of every source file of `index/` and
`operators/`, where all kernels are, because Numba notices a change only in the file that defines the kernel and would
otherwise go on calling a stale helper from another one. Kernels compiled with bounds checks
(`NUMBA_BOUNDSCHECK=1`) are kept apart, since a warm cache would silently ignore that setting.

Invariant: cached code is loaded only from a folder that this user owns and nobody else may enter (cache
files are pickles). If no such folder can be made, kernels are compiled anew in each process. With
`NUMBA_DISABLE_JIT=1` the decorator returns the plain function and touches no disk.

Cost: a first compilation takes seconds (`weir.index.warm` reports it), loading from the cache milliseconds.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.config

from weir.private import private_folders

F = TypeVar("F", bound=Callable[..., Any])
Scalar = Any  # a number inside a kernel, whose machine type Numba infers

config: Any = numba.core.config  # its settings are made at run time from the environment

KERNELS: list[Any] = []  # all compiled functions, in the order of their definition
# Nobody calls a kernel from C, and an entry for C is as much to compile as one for Python.
_njit: Any = partial(cast(Any, numba.njit), nogil=True, no_cfunc_wrapper=True)
_UNUSED_DAYS_MAX = 30  # cache folders of source texts that nobody ran for this long are removed


COMPILED_FROM = ("index", "operators")  # the folders that have kernels
LAID_OUT_BY = ("index", "values", "boxes", "families")  # the folders that decide what a segment's arrays mean


@functools.cache
def source_hash(folders: tuple[str, ...] = LAID_OUT_BY) -> str:
    """Hash of the sources in some folders: same text, same layout of segments, or same compiled code."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent
    for folder in folders:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_unused(kernels: Path, keep: str) -> None:
    """Remove the cache folders of old source texts; a process that still uses one merely compiles again."""
    oldest = time.time() - _UNUSED_DAYS_MAX * 86_400
    for folder in kernels.iterdir():
        try:
            if folder.name != keep and folder.lstat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # somebody else removed it first
            continue


@functools.cache
def cache_folder() -> Path | None:
    """The private folder for compiled kernels of exactly this source text; None where none can be made."""
    # Numba tells kernels apart by where their source is, too: of two checkouts with one text each has its own.
    place = hashlib.sha256(os.fsencode(Path(__file__).resolve().parent)).hexdigest()[:8]
    name = f"{source_hash(COMPILED_FROM)}-{place}" + ("-boundscheck" if config.BOUNDSCHECK else "")
    folder = next(private_folders("kernels", name), None)
    if folder is not None:
        os.utime(folder)
        _remove_unused(folder.parent, keep=name)
    return folder


def kernel(function: F) -> F:
    """Compile `function` when it is first called: cached, releasing the GIL, no fast math, no threads."""
    if config.DISABLE_JIT:
        return function
    compiled = _compiled(function)
    KERNELS.append(compiled)
    return cast(F, compiled)


def _compiled(function: Callable[..., Any]) -> Any:
    folder = cache_folder()
    if folder is None:
        return _njit(cache=False)(function)
    # Numba decides on the place of a function's cache while it decorates, so the setting is needed only
    # here; other users of Numba in this process keep theirs.
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        return _njit(cache=True)(function)
    finally:
        config.CACHE_DIR = before
