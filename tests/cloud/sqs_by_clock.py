"""Runs ministack's SQS on the clock of a test. SQS reads the time from the file that the last argument names.

This SQS also accepts messages of 1 MiB, as SQS does since August 2025.
"""

from __future__ import annotations

import os
import struct
import sys
import types

from ministack import app
from ministack.services import sqs

TIME = struct.Struct("d")
MESSAGE_BYTES_MAX = 1024 * 1024

if __name__ == "__main__":
    descriptor = os.open(sys.argv.pop(), os.O_RDONLY)
    sqs.time = types.SimpleNamespace(time=lambda: TIME.unpack(os.pread(descriptor, TIME.size, 0))[0])
    sqs._NUMERIC_ATTR_RANGES["MaximumMessageSize"] = (1024, MESSAGE_BYTES_MAX)
    app.main()
