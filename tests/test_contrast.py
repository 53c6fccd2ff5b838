"""Texts can be read: WCAG 2.2 AA asks for a contrast of 4.5 between a text and its background, in each scheme."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from pygments.styles import get_style_by_name

from scripts.website import conf
from tests.processes import ROOT

CONTRAST_MIN = 4.5
THEME = ROOT / "src" / "stratalog" / "web" / "theme" / "base.css"
TEXTS = ["ink", "soft", "mark", "calm", "wait"]
BACKGROUNDS = ["paper", "sheet", "tint", "past"]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour of six hexadecimal digits, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text: str, background: str) -> float:
    darker, lighter = sorted((luminance(text), luminance(background)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_contrast_of_two_colours_is_that_of_wcag() -> None:
    assert (contrast("000000", "ffffff"), contrast("ffffff", "ffffff")) == (21, 1)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.005)


def colours(css: Path) -> dict[str, tuple[str, str]]:
    """Return the colours of the theme for light and dark, by their names."""
    pairs = re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\);", css.read_text())
    return {name: (light, dark) for name, light, dark in pairs}


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_each_text_colour_of_the_pages_can_be_read_on_each_background(scheme: int) -> None:
    theme = colours(THEME)
    ratios = {
        (text, background): contrast(theme[text][scheme], theme[background][scheme])
        for text, background in product(TEXTS, BACKGROUNDS)
    }
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < CONTRAST_MIN} == {}


@pytest.mark.parametrize("name", [conf.pygments_style, conf.pygments_dark_style], ids=["light", "dark"])
def test_the_code_on_the_documentation_site_can_be_read(name: str) -> None:
    style = get_style_by_name(name)
    background = style.background_color.removeprefix("#")
    ratios = {
        str(token): contrast(look["color"], look["bgcolor"] or background)
        for token, look in style
        if look["color"] and str(token) != "Token.Text.Whitespace"
    }
    assert ratios
    assert {token: ratio for token, ratio in ratios.items() if ratio < CONTRAST_MIN} == {}
