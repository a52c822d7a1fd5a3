"""`python -m consumers` is the command `headwater` without the commands of `headwater/`."""

import sys

from consumers.cli import main

if __name__ == "__main__":
    sys.exit(main())
