"""The features of a workbook that the engine does not read: the functions name them for the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stratalog_sheet import losses
from stratalog_sheet.xlsx_markup import Attributes

__all__ = ["HEADERS", "HIDDEN", "OTHER_PART", "part_loss", "workbook_losses", "worksheet_losses"]

Loss = tuple[str, str]
VIEW: Loss = ("view", "some settings of views are not kept")
READ = {
    "sheetPr", "dimension", "sheetViews", "sheetFormatPr", "cols", "sheetData", "sheetProtection", "mergeCells",
    "conditionalFormatting", "dataValidations", "hyperlinks", "drawing", "tableParts", "extLst",
}  # fmt: skip
"""The children of a worksheet that the engine reads."""

ELSEWHERE = {"legacyDrawing", "phoneticPr", "ignoredErrors", "sheetCalcPr", "headerFooter", "pageMargins"}
"""The children of a worksheet without content, or whose content another finding names, and the margins of pages."""

HEADERS = {"oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter"}
"""The children of ``headerFooter``. Some programs write them without a text."""

PRINT_OPTIONS = ("headings", "gridLines", "horizontalCentered", "verticalCentered")

LOST: Mapping[str, Loss] = {
    "autoFilter": ("filter", "filters outside tables are not kept"),
    "sortState": ("filter", "filters outside tables are not kept"),
    "rowBreaks": losses.PRINT_SETUP,
    "colBreaks": losses.PRINT_SETUP,
    "oleObjects": losses.EMBEDDED,
    "controls": losses.EMBEDDED,
    "protectedRanges": losses.PROTECTION,
    "scenarios": ("scenario", "scenarios are not kept"),
    "customSheetViews": VIEW,
    "picture": ("background", "pictures behind the cells are not kept"),
}
IN_EXTENSIONS: Mapping[str, Loss] = {
    "sparklineGroups": ("sparkline", "sparklines are not kept"),
    "slicerList": losses.SLICERS,
    "conditionalFormattings": losses.CONDITIONAL_FORMATS,
    "dataValidations": losses.VALIDATIONS,
}
OTHER_PART: Loss = ("other-part", "parts of workbooks that this program does not know are not kept")
OTHER = "parts of worksheets that this program does not know are not kept"
LOST_PARTS: Mapping[str, Loss] = {
    "comments": losses.COMMENTS,
    "threadedComment": losses.COMMENTS,
    "vbaProject": losses.MACROS,
    "chartsheet": ("chart-sheet", "sheets that are a chart are not kept"),
    "dialogsheet": ("chart-sheet", "sheets that are a dialogue are not kept"),
    "xlMacrosheet": losses.MACROS,
    "pivotTable": ("pivot", "pivot tables become values"),
    "queryTable": losses.CONNECTIONS,
    "connections": losses.CONNECTIONS,
    "customXml": ("custom-xml", "custom XML is not kept"),
    "slicer": losses.SLICERS,
    "timeline": losses.SLICERS,
    "oleObject": losses.EMBEDDED,
    "control": losses.EMBEDDED,
    "ctrlProp": losses.EMBEDDED,
    "chartEx": losses.CHARTS,
    "diagramData": losses.SHAPES,
    "chartUserShapes": losses.SHAPES,
}
"""The kinds of parts that the import leaves out, as the relationships to them state the kinds."""

USUAL_PARTS = {
    "officeDocument", "core-properties", "extended-properties", "custom-properties", "extendedProperties",
    "customProperties", "thumbnail", "classificationlabels",
    "worksheet", "styles", "sharedStrings", "theme", "calcChain", "sheetMetadata", "externalLink", "externalLinkPath",
    "drawing", "chart", "table", "image", "hyperlink", "vmlDrawing", "printerSettings", "person",
    "chartStyle", "chartColorStyle", "themeOverride", "pivotCacheDefinition", "slicerCache", "timelineCache",
    "diagramLayout", "diagramQuickStyle", "diagramColors", "diagramDrawing", "package", "volatileDependencies",
}  # fmt: skip
"""The kinds of the other parts: the import reads them, another finding names them, or they have no content."""

HIDDEN = ("hidden", "veryHidden")
RULES_LOST = ("aboveAverage", "containsErrors", "notContainsErrors", "timePeriod")
VALIDATIONS = ("", "none", "decimal", "list", "date", "custom")
USUAL_PAGE = {"scale": "100", "fitToWidth": "1", "fitToHeight": "1", "orientation": "portrait"}
VALIDATION_TEXTS = ("error", "errorTitle", "prompt", "promptTitle")
NO = ("", "0", "false", "off")


def worksheet_losses(local: str, attributes: Attributes, depth: int, *, is_in_extension: bool) -> Iterator[Loss]:
    """Yield the losses of one element: its name without prefix, its attributes, and its depth, 1 below the root.

    The engine reads a few children of a worksheet. So each other child is a loss, also one that no list names.
    """
    if is_in_extension and local in IN_EXTENSIONS:
        yield IN_EXTENSIONS[local]
    if depth == 1 and local in LOST:
        yield LOST[local]
    elif depth == 1 and local == "pageSetup":
        usual = {**USUAL_PAGE, "orientation": "default"} if attributes.get("orientation") == "default" else USUAL_PAGE
        if any(attributes.get(name, value) != value for name, value in usual.items()):
            yield losses.PAGE_SETUP
    elif depth == 1 and local == "printOptions":
        if any(attributes.get(name, "") not in NO for name in PRINT_OPTIONS):
            yield losses.PAGE_SETUP
    elif depth == 1 and local not in READ | ELSEWHERE:
        yield "other-part", OTHER
    elif local == "sheetProtection":
        if {"password", "hashValue"} & attributes.keys():
            yield losses.PROTECTION
    elif local == "sheetView":
        if attributes.get("showZeros") in NO or attributes.get("rightToLeft", "") not in NO:
            yield VIEW
    elif local == "dataValidation":
        is_not_date = attributes.get("type") == "date" and attributes.get("operator") == "notEqual"
        if attributes.get("type", "") not in VALIDATIONS or is_not_date:
            yield losses.VALIDATIONS
        elif any(attributes.get(name) for name in VALIDATION_TEXTS):
            yield "validation-text", "messages of data validations are not kept"
    elif local == "cfRule" and attributes.get("type") in RULES_LOST:
        yield losses.CONDITIONAL_FORMATS
    elif local == "iconSet" and attributes.get("iconSet", "3").strip()[:1] in ("4", "5"):
        yield "icon-set", "sets of four or five icons become sets of three"
    elif local == "hyperlink":
        if attributes.get("tooltip"):
            yield "link-tip", "tips of links are not kept"
        location = attributes.get("location", "")
        if "r:id" in attributes and location:
            yield "link-place", "places within pages and files, after the address of a link, are not kept"
        elif "!" in location and location.rpartition("!")[2].replace("$", "").upper() != "A1":
            yield "link-place", "links to a cell of the workbook lead to cell A1 of its sheet"


def workbook_losses(name: str, attributes: Attributes) -> Iterator[tuple[Loss, str]]:
    """Yield the losses of one element of the workbook part, each with its position."""
    if name == "workbookProtection" and any(value not in NO for value in attributes.values()):
        yield losses.PROTECTION, ""
    elif name == "sheet" and attributes.get("state") == "veryHidden":
        yield ("very-hidden", "sheets that only a macro can show become hidden sheets"), attributes.get("name", "")
    elif name == "calcPr":
        if attributes.get("iterate", "") not in NO:
            yield ("iteration", "formulas that refer to themselves are not computed repeatedly"), ""
        if attributes.get("fullPrecision") in NO:
            yield ("precision", "numbers are computed with all their digits, not as shown"), ""


def part_loss(kind: str) -> Loss | None:
    """Return the loss of a part of the workbook, by the kind of the relationship to it."""
    return LOST_PARTS.get(kind, None if kind in USUAL_PARTS else OTHER_PART)
