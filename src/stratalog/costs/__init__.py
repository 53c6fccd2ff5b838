"""The cost of a workload: billed units, and dollars by a dated list of prices.

Modules
-------
prices    a list of prices, each with its source
bill      counted units in dollars
workload  the billed units of each operation, measured by running it
"""
