"""The measurements of a run, and the limits for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Limits", "Run", "failures_of", "percentile"]


class Limits(msgspec.Struct, frozen=True):
    """Limits for the response times of honest callers, and for the server's memory and log."""

    p99_ms_max: float = 250
    p99_ratio_max: float = 5
    health_ms_max: float = 100
    resident_bytes_max: int = 400 * 1024 * 1024
    log_bytes_max: int = 10 * 1024 * 1024


class Run(msgspec.Struct, frozen=True):
    """The measurements of one run, with or without attacks."""

    requests: int
    p50_ms: float
    p99_ms: float
    health_p99_ms: float
    health_longest_ms: float
    errors: tuple[str, ...]
    resident_bytes_peak: int
    log_bytes: int
    pokes: int
    attacks: dict[str, int]
    """The number of requests of each attack, by the attack's name."""
    is_running: bool = True


def failures_of(undisturbed: Run, disturbed: Run, lost: Sequence[str], limits: Limits) -> list[str]:
    """Return a sentence for each check that failed."""
    checks = {
        f"p99 {disturbed.p99_ms:.0f} ms, limit {limits.p99_ms_max:.0f}": disturbed.p99_ms <= limits.p99_ms_max,
        f"p99 {disturbed.p99_ms:.0f} ms, {limits.p99_ratio_max:g} times {undisturbed.p99_ms:.0f}": (
            disturbed.p99_ms <= limits.p99_ratio_max * undisturbed.p99_ms
        ),
        f"/health {disturbed.health_p99_ms:.0f} ms, limit {limits.health_ms_max:.0f}": (
            disturbed.health_p99_ms <= limits.health_ms_max
        ),
        f"{disturbed.resident_bytes_peak >> 20} MiB resident, limit {limits.resident_bytes_max >> 20}": (
            disturbed.resident_bytes_peak <= limits.resident_bytes_max
        ),
        f"{disturbed.log_bytes} bytes of log, limit {limits.log_bytes_max}": (
            disturbed.log_bytes <= limits.log_bytes_max
        ),
        f"{len(disturbed.errors)} errors of honest callers": not disturbed.errors,
        f"{len(undisturbed.errors)} errors without an attack": not undisturbed.errors,
        f"{len(lost)} acknowledged writes lost": not lost,
        "the server ended": disturbed.is_running,
        "honest callers asked nothing": disturbed.requests > 0,
    }
    checks |= {f"attack {name} was not made": count > 0 for name, count in disturbed.attacks.items()}
    return [text for text, is_stored in checks.items() if not is_stored]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies, or 0 if there are no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
