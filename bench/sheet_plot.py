"""Draws the curve of docs/concepts/sheet.md: ``python -m bench.sheet_plot FIGURES.json DRAWING.svg``.

The figures are the output of ``python -m bench.sheet --json``. Needs matplotlib.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

STYLE = {"svg.hashsalt": "stratalog", "svg.fonttype": "none", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}
REPLAYED = (200, 400)
"""The usual numbers of entries that a load of a long sheet replays with the default settings.

An undo can delay a snapshot, so that a load replays more entries. After a restored version a load may replay fewer.
"""


def main(figures: Path, drawing: Path) -> None:
    tails: list[dict[str, Any]] = json.loads(figures.read_text())["tails"]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        for workbook, points in groupby(tails, key=lambda tail: tail["book"]):
            curve = [(max(1, point["entries"]), (point["server_ms"] + point["engine_ms"]) / 1000) for point in points]
            axes.plot(*zip(*curve, strict=True), marker="o", markersize=3, label=workbook)
        axes.axvspan(*REPLAYED, alpha=0.12, color="black", label="our defaults")
        axes.set(
            xlabel="entries after the state that a load starts from",
            ylabel="seconds, server and engine",
            title="How long a load takes by how old its state is",
            xscale="log",
            yscale="log",
        )
        axes.legend()
        figure.savefig(drawing, metadata={"Date": None, "Creator": "python -m bench.sheet_plot"})
        pyplot.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
