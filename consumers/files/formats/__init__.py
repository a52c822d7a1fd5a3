"""The formats of files: one module each, with its entry `FORMAT`."""
