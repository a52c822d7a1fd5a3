"""Inputs that grow in one construct, and the rule that their time grows no faster than they do."""
