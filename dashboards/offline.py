"""A replay as one file, which needs no server and asks for nothing.

The modules are the server's: the import map names each as a data: address. The policy lets
scripts be those and no others, and forbids every connection.
Imports the standard library and its siblings.
"""

from __future__ import annotations

import base64
import json
import re
from html import escape
from typing import Any

from zerosim.dashboards import page, playerfiles
from zerosim.dashboards.documents import encode

DOCUMENT_ID = "replay-document"
_START = f'import "{playerfiles.PREFIX}{playerfiles.MAIN}";'


def offline_page(document: dict[str, Any]) -> str:
    """The page of one replay document, made by `zerosim.replay.replay_document`."""
    imports = {f"{playerfiles.PREFIX}{name}": _data(name) for name in playerfiles.modules()}
    import_map = json.dumps({"imports": imports}, separators=(",", ":"))
    style = playerfiles.read(playerfiles.STYLE)
    assert "</style" not in style.lower()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_policy(import_map, style))}">
<title>{escape(_title(document))}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<script type="importmap">{import_map}</script>
<style>{style}</style>
<link rel="icon" href="data:,">
</head>
<body>
{_without_comments(playerfiles.fragment())}
<script type="application/json" id="{DOCUMENT_ID}">{_as_text(document)}</script>
<script type="module">{_START}</script>
</body>
</html>
"""


def _data(name: str) -> str:
    text = playerfiles.read(name).encode()
    return f"data:text/javascript;base64,{base64.b64encode(text).decode()}"


def _policy(import_map: str, style: str) -> str:
    scripts = " ".join(f"'{page.digest(script)}'" for script in (import_map, _START))
    return (
        f"default-src 'none'; script-src {scripts} data:; style-src '{page.digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _as_text(document: dict[str, Any]) -> str:
    """JSON that no name in it can end: all of it is ASCII, and no tag begins."""
    return encode(document).decode("ascii").replace("<", "\\u003c")


def _title(document: dict[str, Any]) -> str:
    name = document.get("name")
    return f"{name} · zerosim" if isinstance(name, str) and name else "zerosim"


def _without_comments(fragment: str) -> str:
    return re.sub(r"<!--.*?-->\s*", "", fragment, flags=re.DOTALL)
