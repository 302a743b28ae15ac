"""``python -m zeus_runtime``: the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The working directory: a file in a project must not be imported in place of an installed module.
        del sys.path[0]
    from zeus_runtime.cli import main

    sys.exit(main())
