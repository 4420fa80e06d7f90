"""A generator of TCP connection logs, in place of the Internet Traffic Archive's trace that the paper has.

A connection has a time, a duration, a protocol, bytes, a source and a destination, and goes out on one of several
*links* (the paper splits its trace by destination). About one connection comes on each link in a time unit. Sources
follow Zipf's law, and each has some destinations on each link, near ones more often; bytes and durations are
lognormal. What the paper says of its trace, and the generator is made to have:

    ftp      a join of two links on the source has about as many results as its inputs have tuples
    telnet   ten times as many results as ftp: √10 times as many connections
    sources  about 2,000 distinct ones on a link, and ten times as many pairs of source and destination

With a fixed number of sources, results of joins grow with the square of the window, and with the paper's largest
windows there would be millions of them, not as many as inputs. So how many sources there are is an argument: exhibits
with joins let it grow with the window, the others keep the 2,000.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FTP, TELNET, OTHER = range(3)
SOURCE, DESTINATION, PROTOCOL, BYTES, DURATION = range(5)  # the attributes of a tuple
ARITY = 5
FTP_SHARE = 0.15
SKEW = 0.5  # exponent of Zipf's law over sources
DESTINATIONS = 12  # at most so many of a source on a link
NOTE = (
    "The paper's trace is not to be had as a package, so connections are generated: about one on each link in a time "
    "unit, sources by Zipf's law, protocols such that telnet joins ten times as often as ftp."
)


class Connections(NamedTuple):
    """Arrivals in the order of time; links are streams 0, 1, …"""

    times: npt.NDArray[np.int64]
    links: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]  # int64[n, ARITY]


def connections(n_units: int, n_links: int, n_sources: int, *, shared: float = 1.0, seed: int = 1) -> Connections:
    """A log of `n_units` time units; a source is on all links with probability `shared`, else on one."""
    random = np.random.default_rng(seed)
    n = n_units * n_links
    times = np.sort(random.integers(0, n_units, n))
    links = random.integers(0, n_links, n)
    weight = 1.0 / np.arange(1, n_sources + 1) ** SKEW
    source = np.searchsorted(np.cumsum(weight) / weight.sum(), random.random(n))
    source = np.minimum(source, n_sources - 1)
    is_shared = random.random(n_sources) < shared
    source = np.where(is_shared[source], source, source + (1 + links) * n_sources)
    shares = np.array([FTP_SHARE, np.sqrt(10) * FTP_SHARE])
    protocol = np.searchsorted(np.cumsum(shares), random.random(n), side="right")
    near = np.minimum(random.geometric(2 / DESTINATIONS, n), DESTINATIONS)
    destination = (source * (DESTINATIONS + 1) + near) * n_links + links
    size = 40 + np.exp(random.normal(8.0, 2.0, n)).astype(np.int64)
    duration = np.exp(random.normal(1.0, 1.5, n)).astype(np.int64)
    rows = np.stack((source, destination, protocol, size, duration), axis=1)
    return Connections(times, links, np.ascontiguousarray(rows, dtype=np.int64))
