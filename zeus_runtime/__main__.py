"""``python -m zeus_runtime``: the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The working directory: what lies in a project is no installed plugin.
        del sys.path[0]
    from zeus_runtime.cli import main

    sys.exit(main())
