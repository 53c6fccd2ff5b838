"""Losses: features of workbooks that an import drops, each as a code and a sentence for the report.

This module has only the losses that several places in the code report.
"""

from __future__ import annotations

__all__ = [
    "CHARTS",
    "COMMENTS",
    "CONDITIONAL_FORMATS",
    "CONNECTIONS",
    "EMBEDDED",
    "LINKS",
    "MACROS",
    "MANY_RANGES",
    "MERGES",
    "PAGE_SETUP",
    "PHONETIC",
    "PRINT_SETUP",
    "PROTECTION",
    "RICH_TEXT",
    "SHAPES",
    "SLICERS",
    "VALIDATIONS",
]

CHARTS = ("chart", "charts of some kinds are not kept")
COMMENTS = ("comment", "comments are not kept")
CONDITIONAL_FORMATS = ("conditional-format", "conditional formats of some kinds are not kept")
CONNECTIONS = ("connection", "connections to data outside the workbook are not kept")
EMBEDDED = ("embedded", "embedded objects and controls are not kept")
LINKS = ("link", "links of empty cells, of formulas, and without an existing sheet or an address are not kept")
MACROS = ("macro", "macros are not kept")
MANY_RANGES = ("many-ranges", "merges and links beyond a limit for their sheet are not kept")
MERGES = ("merge", "merges that hide filled cells, or that overlap, are not kept")
PAGE_SETUP = ("page-setup", "scale, orientation and options of printed pages are not kept")
PHONETIC = ("phonetic", "phonetic texts are not kept")
PRINT_SETUP = ("print-setup", "headers, footers and page breaks are not kept")
PROTECTION = ("protection", "passwords and exceptions of protected sheets and workbooks are not kept")
RICH_TEXT = ("rich-text", "fonts within a text are not kept")
SHAPES = ("shape", "shapes, text boxes and diagrams are not kept")
SLICERS = ("slicer", "slicers and timelines are not kept")
VALIDATIONS = ("validation", "data validations of some kinds are not kept")
