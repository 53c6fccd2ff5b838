"""A catalogue's counts in the text format of Prometheus."""

from __future__ import annotations

from stratalog_catalogue.summary import Stats

__all__ = ["exposition"]


def exposition(stats: Stats) -> str:
    """Return one sample per line. Names of sources need no escape: they have only letters, digits and hyphens."""
    lines = ["# TYPE stratalog_catalogue_works gauge"]
    lines += [f'stratalog_catalogue_works{{source="{summary.source}"}} {summary.works}' for summary in stats.sources]
    lines += ["# TYPE stratalog_catalogue_scanned_seconds gauge"]
    lines += [
        f'stratalog_catalogue_scanned_seconds{{source="{summary.source}"}} {summary.as_of_ms / 1000}'
        for summary in stats.sources
    ]
    lines += ["# TYPE stratalog_catalogue_dead_letters gauge"]
    # A source without a count has no dead letters, or its letters come after the counted letters.
    counts = {} if stats.more_dead_letters else {summary.source: 0 for summary in stats.sources}
    counts |= stats.dead_letters
    lines += [f'stratalog_catalogue_dead_letters{{source="{source}"}} {count}' for source, count in counts.items()]
    lines += ["# TYPE stratalog_catalogue_more_dead_letters gauge"]
    lines += [f"stratalog_catalogue_more_dead_letters {int(stats.more_dead_letters)}"]
    return "\n".join(lines) + "\n"
