"""Training: settings, models, tasks, and runs that can be resumed."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .models import GNN
    from .results import Metrics, SeedRun
    from .run import Result, load_run, train
    from .search import sweep
    from .settings import Settings, resolve

__all__ = ["GNN", "Metrics", "Result", "SeedRun", "Settings", "load_run", "resolve", "sweep", "train"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "GNN": "models",
        **dict.fromkeys(("Metrics", "SeedRun"), "results"),
        **dict.fromkeys(("Result", "load_run", "train"), "run"),
        **dict.fromkeys(("Settings", "resolve"), "settings"),
        "sweep": "search",
    },
)
