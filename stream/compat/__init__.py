"""Models of river: any classifier as a Learner, and pipelines by the names of their classes."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.compat.build import build_river
    from stream.compat.classifier import RiverClassifier
    from stream.compat.steps import CLASS_PATH, RIVER, check_steps

__all__ = ["CLASS_PATH", "RIVER", "RiverClassifier", "build_river", "check_steps"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "stream.compat.build": ("build_river",),
        "stream.compat.classifier": ("RiverClassifier",),
        "stream.compat.steps": ("CLASS_PATH", "RIVER", "check_steps"),
    },
)
