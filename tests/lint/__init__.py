"""Rules about files and pages: `python -m tests.lint` prints a line for each finding.

A module is a subject. Its `RULES` are functions from what they look at to findings, each with what
it looks at in the tree; `test_rules.py` shows that each of them finds something.
"""
