"""Long runs, each a command of its own; results are committed with their date.

Kernels are machine code, as in other tests: beside a compiler that works in the background most
runs would end before it, and with NUMBA_BOUNDSCHECK they would check few indices.
"""

import os

from stream.kernel.tiers import VARIABLE

os.environ.setdefault(VARIABLE, "compiled")
