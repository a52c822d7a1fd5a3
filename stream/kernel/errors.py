"""What a caller may want to filter."""

__all__ = ["CompilationWarning"]


class CompilationWarning(UserWarning):
    """The first call of a kernel compiles it, unless its machine code was kept or brought."""
