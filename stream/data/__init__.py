"""Records as columns: their schema, rows, blocks of steps, and exact states."""
