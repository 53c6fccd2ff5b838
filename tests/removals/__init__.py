"""Removals: each removes one bug's fix from a copy of the checkout. The tests that guard against it must then fail.

Modules
-------
page        the bugs of docs/guarantees.md, each with its tests
removal     the edits that remove a fix, and the tests that must then fail
collection  all removals
trials      runs of the removals in copies of the checkout
broken_code  a plugin of pytest that distinguishes a failed test from broken code
"""
