"""After `give_memory_back`, the process returns freed large blocks to the operating system."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import re, sys, threading
from pathlib import Path
from stratalog.server.allocator import give_memory_back

if sys.argv[1] == "yes" and not give_memory_back():
    sys.exit("the C library did not accept the settings")
kept = []

def use(barrier):
    for _ in range(4):
        large = [bytearray(2_000_000) for _ in range(8)]
        # An object that stays at the end of a heap keeps the whole heap in memory.
        kept.append(bytearray(100_000))
        del large
    barrier.wait()

for size in (20_000_000, 30_000_000):
    bytearray(size)
barrier = threading.Barrier(8)
threads = [threading.Thread(target=use, args=(barrier,)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def resident_mb(is_given_back: str) -> int:
    return int(subprocess.run([sys.executable, "-c", PROGRAM, is_given_back], capture_output=True, check=True).stdout)


def test_large_blocks_go_back_to_the_system_when_they_are_free() -> None:
    assert resident_mb("no") - resident_mb("yes") > 20
