"""Score the corpus: ``python -m apps.sheet.tests.corpus --json scores.jsonl``.

The exit code is 0 if the scores reach the goal and LibreOffice opens every export. The scores are lines of JSON. A
repeated command scores only the workbooks that have no score yet. With ``--only`` it scores the chosen workbooks again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from apps.sheet.tests.corpus.office import has_office, refused_by_office
from apps.sheet.tests.corpus.scoring import UNWRITTEN, Score, score_workbook
from apps.sheet.tests.corpus.source_packages import workbook_paths
from stratalog_sheet import EnginePool
from stratalog_sheet.engine import install_engine

EQUAL_MIN = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the workbooks that the arguments choose, print the summary, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m apps.sheet.tests.corpus", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("corpus.jsonl"), help="the file of the scores")
    parser.add_argument("--exports", type=Path, default=Path("corpus-exports"), help="the folder of the exports")
    parser.add_argument("--every", type=int, default=1, help="score every N-th workbook only")
    parser.add_argument(
        "--only", default="", help="only workbooks whose path contains this text, scored or not; print their scores"
    )
    given = parser.parse_args(arguments)
    install_engine()
    given.exports.mkdir(exist_ok=True)
    paths = [path for path in workbook_paths(print)[:: given.every] if given.only in str(path)]
    scores = _stored(given.json)
    engines = EnginePool()
    with given.json.open("ab") as stream:
        for position, path in enumerate(paths):
            name = f"{path.parent.name}/{path.name}"
            if name not in scores or given.only:
                scores[name] = score_workbook(path, engines, given.exports)
                stream.write(msgspec.json.encode(scores[name]) + b"\n")
                stream.flush()
            if given.only:
                print(scores[name])
            elif position % 50 == 0:
                print(f"{position}/{len(paths)}", file=sys.stderr, flush=True)
    engines.close()
    status = _summary([scores[f"{path.parent.name}/{path.name}"] for path in paths])
    if not has_office():
        print("LibreOffice is not on this machine, so it opened no export")
        return 1
    exports = [path for path in sorted(given.exports.glob("*.xlsx")) if given.only in str(path)]
    refused = list(refused_by_office(exports))
    print(f"LibreOffice opens {len(exports) - len(refused)} of {len(exports)} exports", *refused, sep="\n")
    return status or bool(refused)


def _stored(path: Path) -> dict[str, Score]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    scores = [msgspec.json.decode(line, type=Score) for line in lines]
    return {score.name: score for score in scores}


def _summary(scores: Sequence[Score]) -> int:
    outcomes = Counter(score.outcome for score in scores)
    compared = outcomes["equal"] + outcomes["different"]
    silent = [score for score in scores if score.outcome == "different" and not score.reported]
    unwritten = [score for score in scores if score.export.startswith(UNWRITTEN)]
    exports = [score for score in scores if score.export and score not in unwritten]
    print(f"{len(scores)} workbooks: {dict(outcomes)}; {sum(score.cells for score in scores)} cells compared")
    print(f"equal to openpyxl's values: {outcomes['equal']} of {compared} workbooks that openpyxl reads")
    print(
        f"workbooks with an unreported difference: {len(silent)}; "
        f"exports that cannot be written or opened: {len(exports)}"
    )
    print(f"exports that a limit refuses: {len(unwritten)}")
    return 0 if outcomes["equal"] >= EQUAL_MIN * compared and not silent and not exports else 1


if __name__ == "__main__":
    sys.exit(main())
