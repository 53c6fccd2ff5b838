"""The spreadsheet: seed 004 as a program. A sheet is a log of an engine's revisions; the engine's model is its state.

``place`` finds and fetches the engine.
"""
