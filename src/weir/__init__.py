"""Weir: a million standing SQL queries over data streams, run as one Spark job."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.answer.answers import Answers
    from weir.answer.fetch import Changes
    from weir.api import Weir
    from weir.api import open_weir as open
    from weir.errors import WeirError
    from weir.feeds.registration import register_source
    from weir.handles import Queries, Query
    from weir.runtime.run import Run
    from weir.runtime.session import configure

__all__ = ["Answers", "Changes", "Queries", "Query", "Run", "Weir", "WeirError", "configure", "open", "register_source"]
__version__ = "0.1.0"

# Names are loaded when they are first used: a worker that imports one kernel must not import Spark and the API.
_HOMES = {
    "Answers": ("weir.answer.answers", "Answers"),
    "Changes": ("weir.answer.fetch", "Changes"),
    "Queries": ("weir.handles", "Queries"),
    "Query": ("weir.handles", "Query"),
    "Run": ("weir.runtime.run", "Run"),
    "Weir": ("weir.api", "Weir"),
    "WeirError": ("weir.errors", "WeirError"),
    "configure": ("weir.runtime.session", "configure"),
    "open": ("weir.api", "open_weir"),
    "register_source": ("weir.feeds.registration", "register_source"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weir' has no attribute '{name}'")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
