"""Machine code of the kernels a service runs: made once a machine, kept on its disk by numba."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from numba.core.registry import CPUDispatcher

from consumers.config import Config
from consumers.models import build, explainable
from stream.base import Learner
from stream.bayes import GaussianNB
from stream.evaluate.compare import compile_comparison
from stream.evaluate.drifting import compile_drift
from stream.evaluate.progressive import progressive

__all__ = ["compile_kernels"]


def compile_kernels(config: Config, say: Callable[[str], None]) -> None:
    """Compile what the models and their transport run, once a machine; say so when it has to."""
    models = [config.model, *config.challenger]
    ours = [build(model) for model in models if not model.type.startswith("river:")]
    learners = ours or [GaussianNB()]
    waited = 2.0 if all(map(_compiled, learners)) else 0.1
    timer = threading.Timer(waited, say, ("compiling kernels (once)",))
    timer.daemon = True
    timer.start()
    try:
        for learner in learners:
            *_, quality = progressive([({"warm": 1.0}, "a"), ({"warm": 2.0}, "b")], learner)
            assert quality.scores["all"].agreement is not None  # noqa: S101  loads river's metrics
            if explainable(learner):  # else the page's first "why?" would stop the loop for that
                learner.explain_one({"warm": 1.0})
        if config.challenger:
            compile_comparison()
        if config.drift.detectors:
            compile_drift()
        if config.input.transport.startswith("kafka:"):
            from consumers.transports.kafka_batches import rehearse

            rehearse()
    finally:
        timer.cancel()


def _compiled(learner: Learner) -> bool:
    """Whether the disk holds compiled kernels of all that the learner is made of."""
    made_of = [learner, *getattr(learner, "_parts", ())]
    modules = {sys.modules[type(part).__module__] for part in made_of}
    kernels = [
        next(kernel for kernel in vars(m.kernels).values() if isinstance(kernel, CPUDispatcher))
        for m in modules
        if hasattr(m, "kernels")
    ]
    return all(
        any(
            Path(kernel.stats.cache_path).glob(
                f"{Path(kernel.py_func.__code__.co_filename).stem}.*.nbi"
            )
        )
        for kernel in kernels
    )
