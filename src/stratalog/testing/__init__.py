"""Shipped with the package for those who build on it: contract suites, fault injection, a simulated clock and
scheduler, and checkers of histories. Nothing outside this folder and the tests imports it.
"""
