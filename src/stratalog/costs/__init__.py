"""What a workload costs: billed units, and dollars by a dated list of prices.

Modules
-------
prices    a list of prices, each with its source
bill      counted units in dollars
workload  the units of each operation, counted by doing it
"""
