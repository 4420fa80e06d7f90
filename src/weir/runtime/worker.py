"""The Python daemon of Spark's executors: imports what every task needs, once, before it forks.

Spark forks a worker from this process for each task. Without the imports here each new worker would load
NumPy, Arrow, Numba and the compiled kernels again (about a second). Queries and rows are memory-mapped files; what
a worker has opened of them it keeps from batch to batch (`weir.runtime.opened`).
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")


def preload() -> None:
    """Import the libraries and load those kernels that are in their cache; the driver had the others compiled.

    Without a cache folder all are compiled here, once for all workers.
    """
    import pyarrow  # noqa: F401  # imported for its side effect: forked workers find it loaded

    import weir.runtime.ingest
    import weir.runtime.match  # noqa: F401  # likewise
    from weir.index.jit import cache_folder
    from weir.index.warm import ready_kinds, warm

    warm(None, None if cache_folder() is None else ready_kinds())


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
