"""The consumer of the queue, which applies queued pushes to documents. This package uses no HTTP.

Modules
-------
worker          a long-lived process that receives and settles messages
messages        a queued push as bytes
queued_pushes   puts pushes into the queue, and limits their number
coalescing      queued pushes of one document as one batch
execution       running a batch, or one mutation at a time
settlement      acknowledgement, retry or rejection of a message
attempt_record  earlier failures of a message, stored in the index
dead_letters    failed messages and mutations, listed and redriven
"""

from stratalog.protocol.weekly_groups import weekly_group
from stratalog.worker.messages import Carried, QueuedPush
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker, WorkerSettings

__all__ = ["Carried", "QueuedPush", "QueuedPushes", "Worker", "WorkerSettings", "weekly_group"]
