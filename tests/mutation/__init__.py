"""Mutation testing: one small change of the library's source at a time, and whether any test notices it.

Modules
-------
sites     the places of a module that can be changed, and each change
plan      which commands judge a change of a module, the narrowest first
campaign  a sample, drawn by a seed, tried in copies of the checkout
"""
