"""Long runs, each a command of its own; results are committed with their date."""
