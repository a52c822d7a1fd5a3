"""Tests of records with registered schemas."""
