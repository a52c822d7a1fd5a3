"""Compiled loops, a file a family; each calls only its own, so a cached one is never stale."""
