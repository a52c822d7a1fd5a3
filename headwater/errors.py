"""The errors of a client, by who can correct them.

HeadwaterError
├── RecordError       the record: it would become a dead letter, and was not written
├── ConfigError       the program: a wrong URL, argument or topic
└── TransportError    the log failed, or did not acknowledge in time
    └── ServiceError  the same for a service over HTTP, with its status
"""

from __future__ import annotations

from consumers.api.contract import Problem
from consumers.base.errors import TransportError

__all__ = ["ServiceError"]


class ServiceError(TransportError):
    """A service did not do what was asked.

    Parameters
    ----------
    message
        What was expected, what came, what to do.
    status
        The HTTP status; None without an answer.
    problem
        The answer, if it was a problem of the service (RFC 9457).
    """

    def __init__(
        self, message: str, status: int | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem
