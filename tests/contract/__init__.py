"""The promises of `protocol.py`, kept by every transport."""
