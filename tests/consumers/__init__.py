"""Tests of the service's heart."""
