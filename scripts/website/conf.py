"""The settings of Sphinx. `scripts.website` writes the source folder that Sphinx reads."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

from scripts.website import docstrings, sidebar

project = "Stratalog"
author = "The Stratalog authors"
project_copyright = "The Stratalog authors"
version = release = version_of("stratalog")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
highlight_language = "none"
# A name in single backticks is code, and also a link if the reference has the name.
default_role = "py:obj"
nitpicky = False
# An excerpt of JSON may contain an ellipsis, which the highlighter cannot parse. Such an excerpt is not highlighted.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 4
myst_heading_slug_func = "scripts.website.markup.anchor"

add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 130
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"

# A quotation mark and an ellipsis become typographic. A dash does not: an option of a command begins with two.
smartquotes_action = "qe"

html_theme = "furo"
html_title = "Stratalog"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "a11y-light"
pygments_dark_style = "github-dark"
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-brand-primary": "#0b5c8a",
        "color-brand-content": "#0b5c8a",
        "color-api-name": "#0b5c8a",
        "color-api-pre-name": "#57606a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cb8e6",
        "color-brand-content": "#6cb8e6",
        "color-api-name": "#6cb8e6",
        "color-api-pre-name": "#9da7b1",
    },
}


def setup(app: Any) -> None:
    docstrings.connect(app)
    sidebar.connect(app)
