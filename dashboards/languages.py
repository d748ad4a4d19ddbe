"""The language of a response: set by the address, or the cookie, or the server.

The choice belongs to the browser, so each student of a class reads their own language. A page with
a language in its address sets the cookie, so that a link shows what was seen and other pages keep
that language.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from flask import Flask, Response, request
from werkzeug.wrappers import Request

from zerosim.base.language import Language, speaking, spoken
from zerosim.view.export.player import TAGS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

ASKED = "lang"
"""Name of the cookie, and of the query parameter."""
KEPT_S = 365 * 24 * 3600
_INSIDE = ("/api/", "/dash/")
"""Requests made by pages: the address of the page counts."""


def tag() -> str:
    """The current language, as a page's `lang` names it."""
    return TAGS[spoken()]


def other() -> Language:
    """The language that a page's switch selects."""
    return Language.ENGLISH if spoken() is Language.CHINESE else Language.CHINESE


def tag_of(language: Language) -> str:
    """A language as an element's `lang` names it."""
    return TAGS[language]


def switched(query: str) -> str:
    """The same page in the other language.

    Args:
        query: of its address, after "?".
    """
    fields = parse_qs(query, keep_blank_values=True) | {ASKED: [other()]}
    return f"{request.path}?{urlencode(fields, doseq=True)}"


def language_of(asked: Request, usual: Language) -> Language:
    """The language of a response.

    Args:
        usual: the default.
    """
    said = [asked.args.get(ASKED)]
    if asked.path.startswith(_INSIDE):
        said.append(_in_address(asked.referrer or ""))
    said.append(asked.cookies.get(ASKED))
    return next((found for one in said if (found := _known(one)) is not None), usual)


def _in_address(address: str) -> str | None:
    try:
        return parse_qs(urlsplit(address).query).get(ASKED, [None])[-1]
    except ValueError:
        return None


def _known(name: str | None) -> Language | None:
    return Language(name) if name in set(Language) else None


class Speaking:
    """A WSGI application that handles each request in its language."""

    def __init__(self, inner: WSGIApplication) -> None:
        """The current language is the default."""
        self._inner, self._usual = inner, spoken()

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse, /
    ) -> Iterable[bytes]:
        """Answer one request."""
        with speaking(language_of(Request(environ), self._usual)):
            return self._inner(environ, start_response)


def remember(server: Flask) -> None:
    """Store the choice of an address, and declare that the response depends on it."""

    @server.after_request
    def _keep(response: Response) -> Response:
        chosen = _known(request.args.get(ASKED))
        is_new = chosen is not None and request.cookies.get(ASKED) != chosen
        if chosen is not None and is_new and response.mimetype == "text/html":
            response.set_cookie(
                ASKED, chosen, max_age=KEPT_S, path="/", httponly=True, samesite="Strict"
            )
        if not request.path.startswith(("/player/", "/dash/_dash-component", "/dash/assets")):
            response.vary.add("Cookie")
        return response
