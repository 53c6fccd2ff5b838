"""Formulas in the notation of workbooks: their tokens, their translation to another cell, and the limits of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from stratalog_sheet.cells import column_name, column_number

__all__ = [
    "COLUMNS_MAX",
    "ROWS_MAX",
    "Token",
    "exceeds_file",
    "for_engine",
    "for_file",
    "in_file",
    "quote_sheet",
    "shift",
    "tokens",
    "unquote_sheet",
    "without_single_ranges",
]

COLUMNS_MAX = 16_384
ROWS_MAX = 1_048_576
"""The largest sheet that an .xlsx file can contain. The engine's sheets can have more columns."""

_LARGE = re.compile(r"(?<![A-Za-z])[X-Zx-z][A-Za-z]{2}(?![A-Za-z])|[0-9]{7}")
"""Every reference to a column or row that a file cannot contain has a match. Few formulas without one have a match."""


_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"]|"")*")
  | (?P<quoted>'(?:[^']|'')*'(?=!))
  | (?P<error>\#(?:REF!|N/A|VALUE!|DIV/0!|NAME\?|NULL!|NUM!|SPILL!|CALC!))
  | (?P<bracket>\[(?:[^\[\]']|'.|\[(?:[^\[\]']|'.)*\])*\])
  | (?P<columns>\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![\w.(!]))
  | (?P<rows>\$?[0-9]{1,7}:\$?[0-9]{1,7}(?![\w.(!]))
  | (?P<cell>\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}(?![\w.(!\[?\\]))
  | (?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[^\W\d][\w.?\\]*|\\[\w.?\\]*)
  | (?P<space>\s+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CORNER = re.compile(r"(\$?)([A-Za-z]{1,3})(\$?)([0-9]+)")
_LIKE_REFERENCE = re.compile(r"[A-Z]{1,3}[0-9]+|R[0-9]*(?:C[0-9]*)?|C[0-9]*|TRUE|FALSE", re.IGNORECASE)
_WORKSHEET_FUNCTION = re.compile(r"(?<![\w.])(?:_xlfn\.)?(FILTER|SORT)(?![\w.])", re.IGNORECASE)
_CALL = re.compile(r"(?<![\w.])(?:EXPAND|SORT|WRAPCOLS|WRAPROWS)\s*\(", re.IGNORECASE)
_ORDERS = {"": "TRUE", "1": "TRUE", "TRUE": "TRUE", "-1": "FALSE"}
_PADDED = {"EXPAND": 3, "WRAPCOLS": 2, "WRAPROWS": 2}
"""The position of the value for the new cells. A file replaces a missing value by #N/A, and the engine by 0."""

_SIGNED = re.compile(r"[/^]\s*[-+]")
_SIGNS = ("-", "+")
_OPENERS = ("(", "{", ",", ";", "+", "-", "*", "/", "^", "&", "=", "<", ">", "<>", "<=", ">=")
_OPEN_COLUMN = re.compile(r"[A-Za-z]{1,3}")
_OPEN_ROW = re.compile(r"[0-9]{1,7}")


class Token(msgspec.Struct):
    """A piece of a formula. All pieces joined are the formula."""

    kind: str
    text: str


def tokens(formula: str) -> list[Token]:
    """Return the pieces of a formula without its leading ``=``."""
    return [Token(match.lastgroup or "other", match[0]) for match in _TOKEN.finditer(formula)]


def shift(formula: str, columns: int, rows: int) -> str:
    """Return the formula with its references moved by ``columns`` and ``rows``. A ``$`` keeps a column or row fixed."""
    return "".join(_shifted(formula, columns, rows))


def without_single_ranges(formula: str) -> str:
    """Return the formula with a cell such as ``$D$4`` in place of each range of one cell, such as ``$D$4:D4``.

    The engine itself displays a range of one cell as a cell. The engine cannot store a formula with a range of one cell
    above a similar formula with a longer range. So the engine would refuse a column of running totals.
    """
    pieces = tokens(formula)
    left_out: set[int] = set()
    for position in range(len(pieces) - 2):
        first, between, last = pieces[position : position + 3]
        if first.kind == last.kind == "cell" and between.text == ":" and _bare(first.text) == _bare(last.text):
            left_out |= {position + 1, position + 2}
    return "".join(piece.text for position, piece in enumerate(pieces) if position not in left_out)


def exceeds_file(formula: str) -> bool:
    """Return whether a formula or a range refers to columns or rows that a file cannot contain."""
    return _LARGE.search(formula) is not None and any(map(_exceeds_file, tokens(formula)))


def in_file(formula: str) -> str:
    """Return the formula with ranges that a file can contain.

    An open range such as ``A2:A`` or ``B1:1`` gets its end. A range that ends after the last row ends in the last row:
    inserted rows may have moved its end, but no sheet has such a row.
    """
    if ":" not in formula:
        return formula
    pieces = tokens(formula)
    for position in range(len(pieces) - 2):
        first, between, last = pieces[position : position + 3]
        if first.kind == "cell" and between.text == ":":
            # The end of an open range with a dollar sign, such as ``$A``, is two pieces.
            at = position + (3 if last.text == "$" and position + 3 < len(pieces) else 2)
            follows = pieces[at + 1].text if at + 1 < len(pieces) else ""
            if follows not in ("(", "!"):  # after a function such as IF, or a sheet, there is no end
                pieces[at].text = _end_in_file(first.text, pieces[at])
    return "".join(piece.text for piece in pieces)


def for_engine(formula: str) -> str:
    """Return a formula of a file for the engine, with parentheses around some signs and their operands.

    In a file a sign binds before all operators: ``-A1^2`` is ``(-A1)^2``, and ``2/-A1*3`` is ``2/(-A1)*3``. In the
    engine it binds after ``^``, ``*`` and ``/``: these are ``-(A1^2)`` and ``2/-(A1*3)``.

    Arguments that the engine understands otherwise are changed too: the order of ``SORT`` is 1 or -1 in a file.
    """
    if _CALL.search(formula):
        formula = _with_arguments(formula)
    if not ("^" in formula and "-" in formula) and not _SIGNED.search(formula):
        return formula
    pieces = tokens(formula)
    shown = [piece for piece in pieces if piece.kind != "space"]
    # The loop changes the texts of pieces, so all positions are found before.
    texts = [piece.text for piece in shown]
    closing = _closing(texts)
    at = 0
    while at < len(texts):
        if texts[at] not in _SIGNS or (at and texts[at - 1] not in _OPENERS):
            at += 1
            continue
        sign, before = at, texts[at - 1] if at else ""
        while at < len(texts) and texts[at] in _SIGNS:
            at += 1
        end = _after_operand(texts, closing, at)
        follows = "".join(texts[end : end + 1])
        if follows == "^" or (before in ("/", "^") and follows in ("*", "/")):
            shown[sign].text = f"({shown[sign].text}"
            shown[end - 1].text += ")"
    return "".join(piece.text for piece in pieces)


def for_file(formula: str) -> str:
    """Return the formula with the prefixes that a file needs before some newer functions, and that the engine omits."""
    pieces = tokens(formula) if _WORKSHEET_FUNCTION.search(formula) else []
    for piece, follows in pairwise(pieces):
        if piece.kind == "name" and follows.text == "(":
            piece.text = _WORKSHEET_FUNCTION.sub(r"_xlfn._xlws.\1", piece.text)
    return "".join(piece.text for piece in pieces) or formula


def quote_sheet(name: str) -> str:
    """Return a sheet's name in the form that formulas have before the exclamation mark."""
    if re.fullmatch(r"[^\W\d]\w*", name) and not _LIKE_REFERENCE.fullmatch(name):
        return name
    return "'" + name.replace("'", "''") + "'"


def unquote_sheet(text: str) -> str:
    """Return the sheet's name without the quoting of formulas."""
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def _exceeds_file(token: Token) -> bool:
    if token.kind not in ("cell", "columns", "rows"):
        return False
    columns, rows = re.findall("[A-Za-z]+", token.text), re.findall("[0-9]+", token.text)
    return any(column_number(letters) >= COLUMNS_MAX for letters in columns) or any(int(row) > ROWS_MAX for row in rows)


def _end_in_file(first: str, last: Token) -> str:
    """Return the text of the last cell of a range that begins in the cell ``first``."""
    begin, end = _CORNER.fullmatch(first), _CORNER.fullmatch(last.text)
    assert begin is not None, first
    if last.kind == "cell" and end is not None:
        is_moved = int(end[4]) > ROWS_MAX >= int(begin[4])
        return f"{end[1]}{end[2]}{end[3]}{ROWS_MAX}" if is_moved else last.text
    if _OPEN_COLUMN.fullmatch(last.text):
        return f"{last.text}{begin[3]}{ROWS_MAX}"
    if _OPEN_ROW.fullmatch(last.text):
        return f"{begin[1]}{column_name(COLUMNS_MAX - 1)}{last.text}"
    return last.text


def _bare(cell: str) -> str:
    return cell.replace("$", "").upper()


def _shifted(formula: str, columns: int, rows: int) -> Iterator[str]:
    for token in tokens(formula):
        if token.kind == "cell":
            yield _moved_cell(token.text, columns, rows)
        elif token.kind == "columns":
            yield ":".join(_moved_column(part, columns) for part in token.text.split(":"))
        elif token.kind == "rows":
            yield ":".join(_moved_row(part, rows) for part in token.text.split(":"))
        else:
            yield token.text


def _moved_cell(text: str, columns: int, rows: int) -> str:
    match = _CORNER.fullmatch(text)
    assert match is not None, text
    column = match[1] + match[2]
    return _moved_column(column, columns) + _moved_row(match[3] + match[4], rows)


def _moved_column(text: str, columns: int) -> str:
    # A reference that leaves the sheet wraps around, as it does in the programs that write shared formulas.
    return text if text.startswith("$") else column_name((column_number(text) + columns) % COLUMNS_MAX)


def _moved_row(text: str, rows: int) -> str:
    return text if text.startswith("$") else str((int(text) - 1 + rows) % ROWS_MAX + 1)


def _closing(texts: list[str]) -> dict[int, int]:
    """Return the position of the closing parenthesis or brace for each opening one."""
    opened, closing = list[int](), dict[int, int]()
    for at, text in enumerate(texts):
        if text in ("(", "{"):
            opened.append(at)
        elif text in (")", "}") and opened:
            closing[opened.pop()] = at
    return closing


def _with_arguments(formula: str) -> str:
    written = tokens(formula)
    pieces = [piece for piece in written if piece.kind != "space"]
    # The loop changes the texts of pieces, so all positions are found before.
    texts = [piece.text for piece in pieces]
    closing = _closing(texts)
    for at in reversed(range(len(texts) - 1)):  # the calls within a call first
        end, name = closing.get(at + 1), texts[at].upper()
        if end is None or texts[at + 1] != "(":
            continue
        if name == "SORT":
            _change_order(pieces, texts, closing, at + 1)
        elif name in _PADDED:
            left_out = _PADDED[name] + 1 - len(_arguments(texts, closing, at + 1))
            pieces[end].text = f"{',' * left_out}NA())" if left_out > 0 else ")"
    return "".join(piece.text for piece in written)


def _arguments(texts: list[str], closing: dict[int, int], opening: int) -> list[range]:
    """Return the positions of each argument of the call whose parenthesis is at ``opening``."""
    arguments, at = [opening + 1], opening + 1
    while at < closing[opening]:
        if texts[at] == ",":
            arguments.append(at + 1)
        at = closing.get(at, at) + 1
    return [range(*pair) for pair in zip(arguments, [*(start - 1 for start in arguments[1:]), at], strict=True)]


def _change_order(pieces: list[Token], texts: list[str], closing: dict[int, int], opening: int) -> None:
    """Make the order of a SORT a truth value. In the engine, a column needs an order, and an order a column."""
    arguments = _arguments(texts, closing, opening)
    if len(arguments) < 2:
        return
    if not arguments[1]:
        pieces[arguments[1].start - 1].text += "1"
    if len(arguments) == 2:
        pieces[closing[opening]].text = ",TRUE)"
        return
    order = arguments[2]
    first, end = order.start, order.stop
    text = "".join(texts[first:end]).upper()
    if text in _ORDERS:
        for piece in pieces[first:end]:
            piece.text = ""
        pieces[first - 1].text += _ORDERS[text]
    elif (
        text.startswith("IF(") and text.endswith(",1,-1)") and closing.get(first + 1) == end - 1
    ):  # as `formulas.js` writes
        for piece in (*pieces[first : first + 2], *pieces[end - 6 : end]):
            piece.text = ""
    else:
        pieces[first].text = f"({pieces[first].text}"
        pieces[end - 1].text += ")*1>0"  # without the product, each text and each truth value would be above 0
    if len(arguments) == 4 and "".join(texts[arguments[3].start : arguments[3].stop]).upper() in ("", "0", "FALSE"):
        for piece in pieces[end : arguments[3].stop]:  # sorting by rows, not by columns, is what the engine does
            piece.text = ""


def _after_operand(texts: list[str], closing: dict[int, int], at: int) -> int:
    """Return the position after the operand at ``at``: a value, a range, or a call, with the percent signs after it."""
    while texts[at + 1 : at + 2] == ["!"]:
        at += 2
    follows = "".join(texts[at + 1 : at + 2])
    if follows == "(" and at not in closing:
        at += 1
    end = closing.get(at, at) + (3 if follows == ":" else 2 if follows.startswith("[") else 1)
    while texts[end : end + 1] in (["%"], ["#"]):
        end += 1
    return min(end, len(texts))
