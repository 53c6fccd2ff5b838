"""Ends a service whose program was killed, since a killed program cannot end its services."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["run_if_killed"]


@contextmanager
def run_if_killed(command: str) -> Iterator[None]:
    """Let a shell run ``command`` if this process dies in the block.

    Another process reads a pipe, to which this process writes a line at the end of the block. If this process dies, the
    reader finds the end of the pipe instead. A forked child keeps the pipe open, so the command waits for the child's
    end too.
    """
    with subprocess.Popen(
        ["sh", "-c", f"read -r line || {command}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,  # otherwise Ctrl+C in a terminal would end the reader before this process
    ) as reader:
        try:
            yield
        finally:
            reader.communicate(b"\n")
