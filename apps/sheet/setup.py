"""Builds the distribution. `pyproject.toml` has all metadata except the long description, which comes from README.md.

A package index shows the long description. A link to another file of the repository leads nowhere there, so only its
text stays.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

RELATIVE_LINK = re.compile(r"\[([^]]*)]\((?!https?:)[^)]*\)")

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
setup(long_description=RELATIVE_LINK.sub(r"\1", readme), long_description_content_type="text/markdown")
