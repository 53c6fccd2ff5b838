"""Removals: each takes one fix out of a copy of the checkout, and what is said to keep that bug out must fail.

Modules
-------
page        the bugs of docs/guarantees.md, and what keeps each out
removal     what is taken out, and what must fail then
collection  all removals
trials      the removals tried in copies of the checkout
broken_code  a plugin of pytest that tells a test that failed from code that is broken
"""
