"""The first moment of the program `headwater`.

Rule: until its commands are loaded, Ctrl-C ends the process at once. As an exception it would print
the traceback of an import.
"""

from __future__ import annotations

import gc
import signal

__all__ = ["main"]


def main() -> int:
    """Run the command line; the exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # and not ignored, as of a process of `nohup`
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headwater.cli import main as run

    signal.signal(signal.SIGINT, before)
    code = run()
    gc.freeze()  # or Python looks through all objects for cycles, and then ends anyway
    return code
