"""The table state store: partitions, files and jobs of a large table, on one document. Seed 002 as a program.

General layout
--------------
model       partitions, files, references      ordering     row keys as text in their order
messages    what may fail, word for word       tree         the partitions tree, purely
layout      where rows stand                   books        a draft in the words of a table
files       transactions on files              partitions   transactions on the tree
queries     looking at a version               committing   many threads, few entries
table       the handle                         jobs         the job tracker, a model of the same log
queued      the path through the queue         application  what `stratalog work` and `stratalog serve` take
"""

from stratalog.apps.table.files import Assignment, Output, ReplaceFileReferences, Split
from stratalog.apps.table.jobs import Job
from stratalog.apps.table.messages import Failure, Refused
from stratalog.apps.table.model import Column, File, Held, NewFile, NewReference, Partition, Reference, Schema
from stratalog.apps.table.queries import Holding, TableView
from stratalog.apps.table.table import RULES, Table, create_table, open_table

__all__ = [
    "RULES",
    "Assignment",
    "Column",
    "Failure",
    "File",
    "Held",
    "Holding",
    "Job",
    "NewFile",
    "NewReference",
    "Output",
    "Partition",
    "Reference",
    "Refused",
    "ReplaceFileReferences",
    "Schema",
    "Split",
    "Table",
    "TableView",
    "create_table",
    "open_table",
]
