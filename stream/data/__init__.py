"""Records as columns: schema, rows, blocks of steps, and exact states."""
