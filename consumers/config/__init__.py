"""The configuration: a frozen model of the TOML file (`model`), read and explained (`load`).

`sample` infers a schema from records, `docs` writes docs/config.md from the model.
"""

from consumers.base.units import duration_ms
from consumers.config.load import exposed_secrets, load, parse
from consumers.config.model import Config, identity_difference, relearnable
from consumers.config.sample import InferredField, infer, schema_of

__all__ = [
    "Config",
    "InferredField",
    "duration_ms",
    "exposed_secrets",
    "identity_difference",
    "infer",
    "load",
    "parse",
    "relearnable",
    "schema_of",
]
