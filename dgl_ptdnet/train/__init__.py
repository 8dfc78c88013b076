"""Training: settings, models, tasks, and runs that survive."""

from .models import GNN
from .run import Result, load_run, train
from .settings import Settings, resolve
from .sweep import sweep

__all__ = ["GNN", "Result", "Settings", "load_run", "resolve", "sweep", "train"]
