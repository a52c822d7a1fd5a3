"""Compiled loops, a file a family; each calls only its own file, so that a cached one is never stale."""
