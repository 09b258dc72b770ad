"""Self-contained HTML pages with one style, no scripts and no requests."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpufleet.visible import visible

_FOLDER = Path(__file__).parent


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(_FOLDER),
        finalize=lambda value: visible(value) if type(value) is str else value,
    )


def render_page(template: str, *styles: str, images: bool = False, **values: Any) -> str:
    """Render a template of this folder, with the common style and its own `styles`.

    All values are escaped, and their control characters are replaced. The page's Content Security Policy
    allows only its style sheet: no scripts and no requests. With `images` it allows those in the page itself.

    >>> render_page("configure.html.j2", title="...", ...)
    """
    css = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", *styles))
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    policy += "; img-src data:" if images else ""
    page = _environment().get_template(template)
    # The file is ours and contains no `</style`.
    return page.render(style=Markup(css), policy=policy, **values)  # noqa: S704
