"""``python -m zeus_runtime``: the command line."""

import sys

from zeus_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
