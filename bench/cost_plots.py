"""Draws the curves of docs/concepts/cost.md. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from bench.cost_tables import Figures

__all__ = ["draw"]

AXES = {
    "body": ("bytes of an entry's body", "Inline or blob: an entry written once and read once"),
    "segment": ("entries of a segment", "What segments add to an entry"),
    "snapshot": ("entries between snapshots", "Snapshots, and opens of a document by processes that begin"),
}
DEFAULTS = {"body": 8192, "segment": 10_000, "snapshot": 500}
STYLE = {"svg.hashsalt": "stratalog", "svg.fonttype": "none", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}


def draw(cost_figures: Figures, folder: Path) -> None:
    """Write a file for each graph. The same figures give the same bytes."""
    for name, lines in cost_figures.curves.items():
        with pyplot.rc_context(STYLE):
            figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
            for label, points in lines.items():
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
            axes.axvline(DEFAULTS[name], color="black", linestyle=":", linewidth=1, label="our default")
            axes.set(xlabel=AXES[name][0], ylabel="dollars a million entries", title=AXES[name][1])
            if name != "body":
                axes.set_xscale("log")
                axes.set_yscale("log")
            axes.legend()
            figure.savefig(folder / f"cost-{name}.svg", metadata={"Date": None, "Creator": "python -m bench.costs"})
            pyplot.close(figure)
