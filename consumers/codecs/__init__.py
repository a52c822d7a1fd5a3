"""Bytes to columns and back, one file per wire format. Bad bytes become reasons, never errors."""
