"""The consumer of the queue: applies queued pushes to documents. It knows no HTTP.

Modules
-------
worker          a long-lived process that receives and settles messages
messages        a queued push as bytes
queued_pushes   puts pushes into the queue
coalescing      queued pushes of one document as one batch
execution       applies a batch, or one mutation at a time
settlement      acknowledges, retries or rejects a message
attempt_record  what failed so far, kept in the index
dead_letters    lists failed messages and tries them again
"""

from stratalog.worker.messages import Carried, QueuedPush
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker, WorkerSettings

__all__ = ["Carried", "QueuedPush", "QueuedPushes", "Worker", "WorkerSettings"]
