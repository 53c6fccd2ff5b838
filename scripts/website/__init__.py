"""The documentation site: `python -m scripts.website build/site`, or `make docs`. See docs/decisions/0053.

The repository's Markdown pages and the generated reference are written into a source folder below `build/`. Sphinx
makes HTML from it; a warning ends the build. Then every link and every fetched file of the HTML is checked.

Modules
-------
conf               the settings of Sphinx
navigation         the groups of pages and their order
pages              the repository's pages with links that lead within the site
markup             tables and text of generated pages
python_reference   pages of the public Python modules
http_reference     pages of the HTTP API, from its OpenAPI document
command_reference  pages of the commands
docstrings         docstrings as Sphinx reads them
sidebar            the list of pages beside each page
links              checks of the built HTML
"""
