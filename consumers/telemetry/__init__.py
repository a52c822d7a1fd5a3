"""Telemetry: what operators scrape (`prometheus.py`) and read (`log.py`)."""
