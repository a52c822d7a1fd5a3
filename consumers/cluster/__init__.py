"""More shards than one: several in a process, standbys, and who runs which."""
