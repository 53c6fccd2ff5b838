"""Applications: complete programs. Nothing imports one unless a user asks for it.

Modules
-------
sheet      a spreadsheet
table      a state store of large tables
catalogue  a catalogue of records from many sources
"""
