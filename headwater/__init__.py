"""What programs import: load a model that a service has learned.

Importing it compiles nothing. The learners are in `stream`, which does no I/O.
"""

from consumers.snapshots.exported import load_model as load

__all__ = ["load"]
