"""The files of docker/, proved without an engine."""
