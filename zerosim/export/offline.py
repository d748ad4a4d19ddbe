"""A replay as one file, which needs no server and asks for nothing.

The modules are the server's: the import map names each as a data: address. The policy lets
scripts be those and no others, and forbids every connection.
Imports the standard library and `export.player`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from typing import Any

from zerosim.export import player

DOCUMENT_ID = "replay-document"
_START = f'import "{player.PREFIX}{player.MAIN}";'


def offline_page(document: dict[str, Any]) -> str:
    """The page of one replay document, made by `zerosim.replay.replay_document`."""
    imports = {f"{player.PREFIX}{name}": _data(name) for name in player.modules()}
    import_map = json.dumps({"imports": imports}, separators=(",", ":"))
    style = player.read(player.STYLE)
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
{_without_comments(player.fragment())}
<script type="application/json" id="{DOCUMENT_ID}">{_as_text(document)}</script>
<script type="module">{_START}</script>
</body>
</html>
"""


def _data(name: str) -> str:
    text = player.read(name).encode()
    return f"data:text/javascript;base64,{base64.b64encode(text).decode()}"


def _policy(import_map: str, style: str) -> str:
    scripts = " ".join(f"'{digest(script)}'" for script in (import_map, _START))
    return (
        f"default-src 'none'; script-src {scripts} data:; style-src '{digest(style)}'; "
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


def encode(document: dict[str, Any]) -> bytes:
    """A document as JSON in ASCII; no number is infinite or NaN."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def digest(script: str) -> str:
    """A script's hash as a policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
