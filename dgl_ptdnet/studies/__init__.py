"""The paper's experiments, one file a study: a list of runs, and a page from their records."""

from .page import STUDIES, reproduce, write_page

__all__ = ["STUDIES", "reproduce", "write_page"]
