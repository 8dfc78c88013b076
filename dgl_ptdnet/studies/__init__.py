"""The paper's experiments: each study is a list of runs, and a section of a page that is written from their records."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .page import reproduce, write_page

STUDIES = {  # the module of each study, in the order of the page
    "statistics": "statistics",
    "good-bad-edges": "good_bad_edges",
    "classification": "classification",
    "noise": "noise",
    "denoising": "denoising",
    "regularizers": "regularizers",
    "rank-k": "rank_k",
    "depth": "depth",
    "links": "links",
}

__all__ = ["STUDIES", "reproduce", "write_page"]

__getattr__, __dir__ = lazy(__name__, dict.fromkeys(("reproduce", "write_page"), "page"))
