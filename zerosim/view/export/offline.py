"""A page as one standalone file that makes no requests.

The modules are the server's: the import map gives each a data: address. The policy allows these
scripts and no others, and forbids every connection. A replay consists of the player's files; for
any other page, the server's HTML is taken, and everything it refers to is inlined.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html import escape, unescape
from typing import Any

from zerosim.base.language import spoken
from zerosim.view.export import player

DOCUMENT_ID = "replay-document"
_START = f'import "{player.PREFIX}{player.MAIN}";'


def offline_page(document: dict[str, Any]) -> str:
    """The page of one replay document, made by `zerosim.view.replay.replay_document`."""
    import_map = module_map(player.modules())
    style = "".join(map(player.read, player.STYLES))
    assert "</style" not in style.lower()
    return f"""<!doctype html>
<html lang="{player.TAGS[spoken()]}">
<head>
<meta charset="utf-8">
{_policy([import_map, _START], [style])}
<title>{escape(_title(document))}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<script type="importmap">{import_map}</script>
<style>{style}</style>
<link rel="icon" href="data:,">
</head>
<body>
{_without_comments(player.fragment())}
{player.words(player.modules())}
<script type="application/json" id="{DOCUMENT_ID}">{_as_text(document)}</script>
<script type="module">{_START}</script>
</body>
</html>
"""


_TAG = re.compile(r"<(?:link\b([^>]*)>|script\b([^>]*)>.*?</script>)\s*", re.DOTALL)
_ATTRIBUTE = re.compile(r'([a-z]+)="([^"]*)"')
_ADDRESS = re.compile(r' (?:href|action)="[/?][^"]*"')
_FRAME = re.compile(r'(<iframe\b[^>]*\bsrc=")([^"#]*)')
_IMPORT = re.compile(rf'\bfrom "{player.PREFIX}([^"]+)"')
_STYLE = re.compile(r'\bstyle="')
_HEAD = '<meta charset="utf-8">'
_INSIDE = re.compile(r"^<script[^>]*>|</script>$")


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


class PageParts:
    """The resources of a server's page, inlined."""

    def __init__(self, get: Callable[[str], str]) -> None:
        self._get = get
        self._mains: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.documents: list[str] = []
        self.is_styled = False
        """Whether the page has inline styles, or a library such as plotly writes some."""
        self.has_frames = False

    def put(self, html: str) -> str:
        """The page with its resources inlined."""
        given = [_attributes(found[2] or "") for found in _TAG.finditer(html)]
        sources = [one["src"] for one in given if one.get("type") == "module" and "src" in one]
        self._mains = [name for source in sources for name in self._loaded(source)]
        self.is_styled |= _STYLE.search(html) is not None
        return _FRAME.sub(
            lambda found: f"{found[1]}{self._frame(unescape(found[2]))}", _TAG.sub(self._one, html)
        )

    def _loaded(self, source: str) -> list[str]:
        """The player's modules of a script: itself, or those that it imports."""
        if source.startswith(player.ROOT):
            return [player.name_at(source)]
        return _IMPORT.findall(self._get(source))

    def _frame(self, address: str) -> str:
        """A page in a frame, with the permissions of both: its scripts are also allowed here."""
        inside = PageParts(self._get)
        page = _whole(inside, self._get(address))
        self.scripts += inside.scripts
        self.styles += inside.styles
        self.is_styled |= inside.is_styled
        self.has_frames = True
        return f"data:text/html;charset=utf-8;base64,{_base64(page)}"

    def _one(self, found: re.Match[str]) -> str:
        if found[1] is not None:
            return self._link(_attributes(found[1]))
        given = _attributes(found[2])
        if given.get("type") == "importmap":
            used = [name for main in self._mains for name in player.modules(main)]
            return self._modules(used)
        source = given.get("src", "")
        if not source:
            if given.get("type") == "module":
                self.scripts.append(_INSIDE.sub("", found[0].strip()))
            return found[0]
        if given.get("type") != "module":
            self.is_styled = True
            self.scripts.append(self._get(source))
            return f"<script>{self.scripts[-1]}</script>\n"
        if source.startswith(player.ROOT):
            name = player.name_at(source)
            return self._script("module", f'import "{player.PREFIX}{name}";')
        return self._script("module", self._get(source))

    def _link(self, given: dict[str, str]) -> str:
        address = given["href"]
        match given["rel"]:
            case "stylesheet":
                return self._style(address)
            case "preload":
                self.documents.append(_document(address, self._get(address)))
                return ""
            case "icon":
                return '<link rel="icon" href="data:,">\n'
            case _:
                return ""

    def _modules(self, names: Sequence[str]) -> str:
        return self._script("importmap", module_map(names))

    def _style(self, address: str) -> str:
        self.styles.append(self._get(address))
        return f"<style>{self.styles[-1]}</style>\n"

    def _script(self, kind: str, text: str) -> str:
        self.scripts.append(text)
        return f'<script type="{kind}">{text}</script>\n'


def bundle(html: str, get: Callable[[str], str]) -> str:
    """A page of the server as one file.

    Args:
        html: the page. It lists the resources of its later requests as `preload`.
        get: the server's response for an address.
    """
    return _whole(PageParts(get), html)


def _whole(parts: PageParts, html: str) -> str:
    page = _ADDRESS.sub("", parts.put(html))
    policy = _policy(
        parts.scripts, None if parts.is_styled else parts.styles, has_frames=parts.has_frames
    )
    page = page.replace("<html ", '<html data-offline="1" ', 1)
    page = page.replace(_HEAD, f"{_HEAD}\n{policy}", 1)
    before, _, after = page.rpartition("</body>")
    return f"{before}{''.join(parts.documents)}</body>{after}"


def _document(address: str, text: str) -> str:
    """The resources that a page would request from a server."""
    known = f'data-address="{escape(address)}"'
    return f'<script type="application/json" {known}>{_as_text(json.loads(text))}</script>\n'


def module_map(names: Sequence[str]) -> str:
    """The addresses of modules in a standalone page: data: addresses."""
    imports = {f"{player.PREFIX}{name}": _data(name) for name in dict.fromkeys(names)}
    return json.dumps({"imports": imports}, separators=(",", ":"))


def _data(name: str) -> str:
    return f"data:text/javascript;base64,{_base64(player.read(name))}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _policy(
    scripts: Sequence[str], styles: Sequence[str] | None, *, has_frames: bool = False
) -> str:
    """The policy of a page; without `styles`, all inline ones are allowed, as on the server."""
    allowed = " ".join(f"'{one}'" for one in dict.fromkeys(map(digest, scripts)))
    frames = "frame-src data:; " if has_frames else ""
    drawn = [f"'{digest(style)}'" for style in styles] if styles else ["'unsafe-inline'"]
    rules = (
        f"default-src 'none'; script-src {allowed} data:; style-src {' '.join(drawn)}; "
        f"img-src data:; {frames}base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{escape(rules)}">'


def _as_text(document: Any) -> str:
    """JSON that is safe in HTML whatever names it contains: ASCII only, without tags."""
    return encode(document).decode("ascii").replace("<", "\\u003c")


def _title(document: dict[str, Any]) -> str:
    name = document.get("name")
    return f"{name} · zerosim" if isinstance(name, str) and name else "zerosim"


def _without_comments(fragment: str) -> str:
    return re.sub(r"<!--.*?-->\s*", "", fragment, flags=re.DOTALL)


def encode(document: Any) -> bytes:
    """A document as JSON in ASCII; no number is infinite or NaN."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def digest(script: str) -> str:
    """A script's hash in the form that a content security policy uses."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
