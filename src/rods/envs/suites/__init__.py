"""Suites whose data, and whose tools' code, lie in a folder that a user has.

Owns their readers and rules. Nothing of them is in this package: the folder's classes run in a
process of their own (`host.py`), and are given values, never text to evaluate.

    rules = make_suite("api-bank", config)          # evaluation.suite.folder says where
"""
