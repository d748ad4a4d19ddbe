"""The language that commands speak."""

from tests.cli.command import command


def test_an_unknown_language_is_one_line(monkeypatch):
    said = command("--language", "fr", "show", "nowhere")
    assert (said.code, said.out) == (2, "")
    assert said.err == "zerosim: language is 'fr': expected one of en, zh\n"
    monkeypatch.setenv("ZEROSIM_LANGUAGE", "fr")
    assert command("show", "nowhere").err.startswith("zerosim: ZEROSIM_LANGUAGE is 'fr'")
