"""Mutation testing: make one small change of the library's source at a time and check whether a test notices the
change.

Modules
-------
sites     the possible changes (mutants) of a module
plan      the commands that test a changed module, the most specific tests first
campaign  runs a random sample of mutants in copies of the checkout
copies    the copies of the checkout, and the commands that run in them
"""
