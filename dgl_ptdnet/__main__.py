"""``python -m dgl_ptdnet``: the command line."""

import sys

from .cli import main

sys.exit(main())
