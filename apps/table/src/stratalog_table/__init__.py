"""The table store: partitions, files and jobs of a large table, in one document.

Modules
-------
table                 the handle
model                 partitions, files and references
limits                limits of tables
row_order             row keys as text in their order
columns               value columns: types, and how they may change
tree                  the partitions tree, without I/O
layout                keys and rows of the table's document
table_draft           a draft of the document in a table's terms
partitions            transactions on partitions
references            transactions on files and their references
sources               which files a source has brought
table_changes         transactions on columns and retention
job_claims            who does which job
damaged_files         data files that were set aside
jobs                  the job tracker, a second model of the same log
messages              texts of failures
queries               a table at one version
transaction_group     many threads, few entries
queue_path            transactions through the queue
application           the application for `stratalog serve` and `stratalog work`
data_folder           a folder of data files, here or in S3
locations             where data files lie, relative to the store
folder_register       which tables have files in a folder
arrow_types           columns and keys as pyarrow has them
data_files            Parquet files in a folder or in S3
json_rows             rows as JSON
rows                  ingest and scans
file_ingest           ingest of Parquet files, by content
relatives             forks and copies of a table
collection            which data files a table may delete
merge                 merging sorted files in bounded memory
merge_plan            which files are merged
job_worker            doing jobs
maintenance_faults    what failed in a pass
maintenance           splits, compaction, collection
commands              the command `stratalog table`
table_commands        its subcommands on a table as a whole
maintenance_commands  its subcommands that keep a table well
command_parts         what these share

See `formats/table.md`.
"""

from stratalog_table.columns import ValueColumn
from stratalog_table.jobs import Job
from stratalog_table.messages import TransactionFailure, TransactionRefused
from stratalog_table.model import Column, File, FileReference, Held, NewFile, NewReference, Partition, Schema
from stratalog_table.queries import Holding, TableView
from stratalog_table.references import Assignment, Output, ReplaceFileReferences, Split
from stratalog_table.table import RULES, Table, create_table, open_table

__all__ = [
    "RULES",
    "Assignment",
    "Column",
    "File",
    "FileReference",
    "Held",
    "Holding",
    "Job",
    "NewFile",
    "NewReference",
    "Output",
    "Partition",
    "ReplaceFileReferences",
    "Schema",
    "Split",
    "Table",
    "TableView",
    "TransactionFailure",
    "TransactionRefused",
    "ValueColumn",
    "create_table",
    "open_table",
]
