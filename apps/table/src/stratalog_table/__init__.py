"""The table store: partitions, files and jobs of a large table, in one document.

Modules
-------
table                 the handle through which programs read and change a table
table_creation        the creation of tables
model                 partitions, files and references
limits                limits of tables
row_order             row keys as text that sorts in the order of the keys
columns               value columns: their types, and the changes that are allowed
tree                  the partition tree, without I/O
layout                keys and rows of the table's document
table_draft           operations on partitions, files and references in a draft of the document
partitions            transactions on partitions and on the whole table
references            transactions on files and their references
sources               the files that were ingested from each source
table_changes         transactions on columns and retention
job_claims            claims of jobs by workers
damaged_files         data files that were set aside
version_times         times of versions that the log may forget
jobs                  the job tracker, a model that is derived from the table's log
messages              texts of failures
queries               queries on a table at one version
retention             the versions that a table keeps readable
transaction_group     group commit: concurrent transactions in one entry
queue_path            transactions through the queue
application           the application for `stratalog serve` and `stratalog work`
data_folder           a folder of data files, on this machine or in S3
locations             locations of data files, relative to the store
folder_register       the tables that have files in a folder
arrow_types           columns and keys in pyarrow
data_files            Parquet files in a folder or in S3
json_rows             rows as JSON
rows                  ingest and scans
file_ingest           ingest of Parquet files, each file once
relatives             forks, copies and origins of a table in its store
collection            deletion of data files that a table no longer needs
merge                 the merge of sorted files in bounded memory
merge_plan            the choice of files to merge
job_worker            the worker of merge jobs
maintenance_faults    the failures of a maintenance pass
maintenance           splits, compaction, collection
commands              the command `stratalog table`
table_commands        subcommands of `stratalog table` on a whole table
maintenance_commands  subcommands of `stratalog table` for maintenance
command_parts         shared parts of the commands

`formats/table.md` specifies the stored format of a table.
"""

from stratalog_table.columns import ValueColumn
from stratalog_table.jobs import Job, JobTracker
from stratalog_table.messages import TransactionFailure, TransactionRefused
from stratalog_table.model import Column, File, FileReference, Held, NewFile, NewReference, Partition, Schema
from stratalog_table.queries import Holding, TableView
from stratalog_table.references import Assignment, Output, ReplaceFileReferences, Split
from stratalog_table.table import RULES, Table, open_table
from stratalog_table.table_creation import create_table

__all__ = [
    "RULES",
    "Assignment",
    "Column",
    "File",
    "FileReference",
    "Held",
    "Holding",
    "Job",
    "JobTracker",
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
