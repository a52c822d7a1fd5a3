"""The service around `stream`: transports, journal, snapshots, telemetry, commands."""
