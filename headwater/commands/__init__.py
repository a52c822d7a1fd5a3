"""Commands that ask a running service over HTTP."""
