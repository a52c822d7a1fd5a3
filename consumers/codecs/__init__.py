"""Bytes to columns and back, one file a wire format. Bad bytes become reasons, never exceptions."""
