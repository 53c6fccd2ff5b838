"""Draws the curves of docs/guides/table.md. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from bench.table_rows import GROUNDS, Row

__all__ = ["draw"]

STYLE = {"svg.hashsalt": "stratalog", "svg.fonttype": "none", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}
NAMES = {
    "ours": "ours",
    "whole state": "whole state in a file",
    "item each": "an item for each file",
    "postgres": "PostgreSQL",
}


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Draw the commits a second by the number of writers that share a committer, one drawing for each ground."""
    for ground in GROUNDS:
        with pyplot.rc_context(STYLE):
            figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
            for name, label in NAMES.items():
                points = [(row.writers, row.commits_per_second) for row in rows if _is_on(row, name, ground)]
                if points:
                    axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
            axes.set_xscale("log", base=4)
            axes.set_yscale("log")
            axes.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
            axes.set_xlabel("writers of one table")
            axes.set_ylabel("commits a second")
            axes.legend()
            figure.savefig(folder / f"table-{ground}.svg", metadata={"Date": None, "Creator": "python -m bench.table"})
            pyplot.close(figure)


def _is_on(row: Row, name: str, ground: str) -> bool:
    return (row.side, row.ground, row.committers, row.tables, row.files) == (name, ground, 1, 1, 1)
