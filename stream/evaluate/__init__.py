"""Model quality: progressive validation, scores, baselines."""

from stream.evaluate.offline import Checkpoint
from stream.evaluate.progressive import progressive
from stream.evaluate.quality import QualityView, Scores
from stream.evaluate.result import Verification

__all__ = ["Checkpoint", "QualityView", "Scores", "Verification", "progressive"]
