"""The cost of a workload, in billed units and in dollars. A dated list gives the prices.

Modules
-------
prices    a list of prices, each with its source
bill      the counts of a meter as billed units, and their price in dollars
workload  the billed units of each operation, measured by a run of the operation
"""
