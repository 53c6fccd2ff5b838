"""The example in the guide runs."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "table.md"


def test_the_example_of_the_guide_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(compile(example, "table.md", "exec"), {})
