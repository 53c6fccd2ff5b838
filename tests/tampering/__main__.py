"""Plant alterations in random stores: ``python -m tests.tampering --alterations 1000 --seed 1``.

The exit code is 0 if verification finds every alteration, and a checkpoint finds each truncation and each alteration
with recomputed hashes that verification does not find.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import stratalog
from stratalog.errors import NotFound
from stratalog.maintenance.checkpoint import Checkpoint, checkpoint_of, prove_descent
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.verification import HistoryReport, list_histories, verify_history
from tests.tampering.alterations import ALTERATIONS, SHIFTS, alter_blob, rehash
from tests.tampering.rows import Backup, rows_of
from tests.tampering.stores import grown_store

__all__ = ["Campaign", "main", "run"]

ALTERATIONS_PER_STORE = 25
SHOWN_MAX = 10
EXPORT_SHARE = 0.1
VERIFIER = Path(__file__).parents[2] / "examples" / "verify_export.py"


class Campaign(msgspec.Struct):
    """The planted and found alterations, counted by kind.

    ``missed`` has a line for each alteration that was not found, or that wrongly needed a checkpoint.
    """

    planted: Counter[str]
    detected_by_verify: Counter[str]
    detected_by_checkpoint_only: Counter[str]
    rehashed: int
    redacted: int
    missed: list[str]


def run(alterations: int, seed: int) -> Campaign:
    """Plant ``alterations`` alterations, one at a time. For about half of them, also recompute all hashes."""
    draw = Random(seed)
    campaign = Campaign(Counter(), Counter(), Counter(), 0, 0, [])
    while campaign.planted.total() < alterations:
        with grown_store(draw) as store:
            checkpoints = [checkpoint_of(store, history) for history in list_histories(store)]
            reports = {checkpoint.history: _unharmed(store, checkpoint, campaign) for checkpoint in checkpoints}
            backup = Backup(store)
            for _ in range(min(ALTERATIONS_PER_STORE, alterations - campaign.planted.total())):
                checkpoint = draw.choice(checkpoints)
                where = f"seed {seed}, alteration {campaign.planted.total() + 1}"
                careful = campaign.rehashed * 2 <= campaign.planted.total()
                if draw.random() < EXPORT_SHARE:
                    _tamper_export(store, draw, campaign, careful, where)
                else:
                    _tamper(store, draw, checkpoint, reports[checkpoint.history], campaign, careful, where)
                backup.restore()
    return campaign


def _unharmed(store: stratalog.Store, checkpoint: Checkpoint, campaign: Campaign) -> HistoryReport:
    """Check that an unaltered history has no findings. Count its redacted versions, and return its report."""
    descent = prove_descent(store, checkpoint)
    assert descent.status == "proven", descent
    assert descent.report is not None
    assert descent.report.findings == (), descent
    campaign.redacted += len(descent.report.chain.redacted)
    return descent.report


def _tamper(
    store: stratalog.Store,
    draw: Random,
    checkpoint: Checkpoint,
    report: HistoryReport,
    campaign: Campaign,
    careful: bool,
    where: str,
) -> None:
    history = rows_of(store, report)
    rows = history.load()
    version = draw.choice(sorted(rows))
    kinds = {**ALTERATIONS, **SHIFTS} if careful else ALTERATIONS
    # A careful tamperer recomputes all hashes. So two kinds are left out: a truncation leaves no hash to recompute, and
    # the recomputation would undo the change of a hash.
    kind = draw.choice(sorted(kinds.keys() - {"hash", "truncation"} if careful else [*kinds, "blob"]))
    if kind == "blob" and not alter_blob(draw, rows, version, history):
        kind = "content"
    if kind != "blob":
        kinds[kind](draw, rows, version, history)
        if careful:
            rehash(rows, history)
            campaign.rehashed += 1
        history.save(rows)
    campaign.planted[kind] += 1
    name = f"{report.kind} {kind}"
    try:
        by_verify = bool(verify_history(store, report.history).findings)
    except NotFound:
        by_verify = False
    if by_verify:
        campaign.detected_by_verify[name] += 1
    elif prove_descent(store, checkpoint).status == "contradicted":
        campaign.detected_by_checkpoint_only[name] += 1
    else:
        campaign.missed.append(f"{where}: {name} at version {version}, careful={careful}")
    if not careful and kind != "truncation" and not by_verify:
        campaign.missed.append(f"{where}: {name} at version {version} needed a checkpoint")


def _tamper_export(store: stratalog.Store, draw: Random, campaign: Campaign, careful: bool, where: str) -> None:
    """Alter a line of an export. A careful tamperer recomputes the export's hashes, with the example program's code."""
    document = store.document("acme", "plan")
    if document.log.floor():
        return
    file = BytesIO()
    export_document(document, file)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(VERIFIER.read_text(), VERIFIER, "exec"), example)
    origin, hashes = example["verify"](_encoded(lines))
    kind = _alter_export(draw, lines)
    if careful:
        before = example["sha256"](b"stratalog history 1\0" + origin.encode())
        for version, line in enumerate(lines[1:-1], 1):
            line["version"] = version
            before = example["next_hash"](before, line)
            line["hash"] = before.hex()
        campaign.rehashed += 1
    campaign.planted[kind] += 1
    try:
        problems = example["verify"](_encoded(lines))[1]
    except SystemExit:
        campaign.detected_by_verify[f"export {kind}"] += 1
        return
    noted = len(hashes) - 1
    if (careful or kind == "truncation") and (noted >= len(problems) or problems[noted] != hashes[noted]):
        campaign.detected_by_checkpoint_only[f"export {kind}"] += 1
    else:
        campaign.missed.append(f"{where}: export {kind}, careful={careful}")


def _alter_export(draw: Random, lines: list[dict[str, Any]]) -> str:
    position = draw.randrange(1, len(lines) - 1)
    kind = draw.choice(("author", "time", "order", "removal"))
    if kind == "author":
        lines[position]["author"] = "Eve"
    elif kind == "time":
        lines[position]["created_ms"] += 1
    elif kind == "order" and len(lines) > 3:
        other = draw.choice([other for other in range(1, len(lines) - 1) if other != position])
        lines[position], lines[other] = lines[other], lines[position]
    else:
        kind = "truncation" if position == len(lines) - 2 else "removal"
        del lines[position]
    return kind


def _encoded(lines: list[dict[str, Any]]) -> list[bytes]:
    """Return the encoded lines of an export, with a matching last line."""
    encoded = [json.dumps(line).encode() + b"\n" for line in lines[:-1]]
    end = {**lines[-1], "end": len(lines) - 2, "sha256": sha256(b"".join(encoded)).hexdigest()}
    return [*encoded, json.dumps(end).encode() + b"\n"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tampering", description=__doc__)
    parser.add_argument("--alterations", type=int, default=1000, help="the number of alterations to plant")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    campaign = run(options.alterations, options.seed)
    total, rehashed = campaign.planted.total(), campaign.rehashed
    print(
        f"{total} alterations, {rehashed} of them with all hashes computed anew; {campaign.redacted} redacted versions"
    )
    for title, counts in (
        ("planted", campaign.planted),
        ("found by verify", campaign.detected_by_verify),
        ("found only against a checkpoint", campaign.detected_by_checkpoint_only),
    ):
        print(f"{title}: {counts.total()}")
        for kind, count in sorted(counts.items()):
            print(f"  {count:6} {kind}")
    for line in campaign.missed[:SHOWN_MAX]:
        print(f"MISSED {line}")
    print(f"missed: {len(campaign.missed)}")
    return 1 if campaign.missed else 0


if __name__ == "__main__":
    sys.exit(main())
